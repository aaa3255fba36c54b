#!/usr/bin/env python3
"""Two emulated devices, the second with half the speed of the first: a step of bert, data parallel,
with shares 2 : 1 written by hand beside one with equal shares. Prints both steps as simulated and in
emulated time, their ratio, and the ratio that the devices' speeds allow. Asserts nothing. Seconds on
two cores.

    python3 tests/bench/unequal.py [--dilation 400]
"""

import argparse
import pathlib
import subprocess
import tempfile

import h5py

from places import SOURCE, settings

DEVICES = "[{flops: 15.7TFLOPS, memory_bandwidth: 900GB/s}, {flops: 7.85TFLOPS, memory_bandwidth: 450GB/s}]"
SIZES = {"model.layers": 4, "model.hidden": 64, "model.heads": 4, "model.ffn": 256,
         "model.sequence": 64, "data.kind": "synthetic", "model.vocab": 256, "data.validation": "none",
         "train.batch": 192, "train.steps": 4, "train.warmup_steps": 0,
         "train.microbatches": 1, "cluster.mesh.gpus.size": 2, "cluster.devices": DEVICES,
         "cluster.emulate": "on", "cluster.profile": "none"}


def hints(share):
    """Returns hints: all operations by the batch, and the optimizer's state in the same shares."""
    shares = "shares: {gpus: [[2, 1]]}\n" if share else ""
    return (f"{shares}operations: [{{op: '*', rule: [batch{share}]}}]\n"
            f"parameters: [{{name: '*', storage: [R], optimizer_state: [S(0){share}]}}]\n")


def step(folder, share, dilation):
    """Returns (simulated, emulated) seconds of a step."""
    file, out = pathlib.Path(folder, "hints.yaml"), pathlib.Path(folder, "run.h5")
    file.write_text(hints(share), encoding="utf-8")
    script = f'source {SOURCE}/jobs/environment.sh && exec "$@"'
    words = ["bash", "-c", script, "bash", "mpirun", "-n", "2", SOURCE / "build" / "hidup", "train",
             SOURCE / "inputs" / "models" / "bert.yaml", "--cluster",
             SOURCE / "inputs" / "clusters" / "v100-1x8.yaml", "--hints", file, "--out", out,
             "--overwrite", *settings({**SIZES, "cluster.emulate_dilation": dilation})]
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    with h5py.File(out) as timings:
        late = timings["/emulation/late_instructions"][1:].sum()
        here = timings["/emulation/wall_s"][1:].mean() / dilation
        simulated = timings["/strategy"].attrs["predicted_iteration_s"]
        emulated = timings["/iterations/wall_s"][1:].mean()
    print(f"shares {'2 : 1' if share else 'equal'}: simulated {1e3 * simulated:.4f} ms, emulated "
          f"{1e3 * emulated:.4f} ms, wall / dilation {1e3 * here:.4f} ms, {late} late instruction(s)")
    return simulated, emulated


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dilation", type=float, default=400.0)
    dilation = parser.parse_args().dilation
    with tempfile.TemporaryDirectory() as folder:
        equal = step(folder, "", dilation)
        unequal = step(folder, "%1", dilation)
    print(f"2 : 1 over equal: simulated {unequal[0] / equal[0]:.3f}, emulated "
          f"{unequal[1] / equal[1]:.3f}; the devices' speeds allow {2 / 3:.3f}")


if __name__ == "__main__":
    main()
