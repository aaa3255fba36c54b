#!/usr/bin/env python3
"""Emulated devices of speeds 1 : 0.5 and 1 : 0.5 : 0.25: a step of bert as the search plans it, with
unequal parts, beside dp with equal parts, and dp with parts in proportion to the speeds, written by
hand. Prints the steps as simulated and in emulated time, their ratios to equal parts, and the ratio
that the devices' speeds allow. Asserts nothing. Half a minute on two cores.

    python3 tests/bench/unequal.py [--dilation 400]
"""

import argparse
import pathlib
import subprocess
import tempfile

import h5py

from places import SOURCE, settings

SIZES = {"model.layers": 4, "model.hidden": 64, "model.heads": 4, "model.ffn": 256,
         "model.sequence": 64, "data.kind": "synthetic", "model.vocab": 256, "data.validation": "none",
         "train.batch": 168, "train.steps": 4, "train.warmup_steps": 0,
         "cluster.emulate": "on", "cluster.profile": "none"}


def hints(weights):
    """Returns hints: all operations by the batch, and the optimizer's state in the same shares."""
    return (f"shares: {{gpus: [{weights}]}}\noperations: [{{op: '*', rule: [batch%1]}}]\n"
            "parameters: [{name: '*', storage: [R], optimizer_state: [S(0)%1]}]\n")


def step(folder, speeds, how, dilation):
    """Returns (simulated, emulated) seconds of a step. how: options of train."""
    devices = ", ".join(f"{{flops: {15.7 * speed}TFLOPS, memory_bandwidth: {900 * speed}GB/s}}"
                        for speed in speeds)
    out = pathlib.Path(folder, "run.h5")
    script = f'source {SOURCE}/jobs/environment.sh && exec "$@"'
    words = ["bash", "-c", script, "bash", "mpirun", "-n", len(speeds), SOURCE / "build" / "hidup",
             "train", SOURCE / "inputs" / "models" / "bert.yaml", "--cluster",
             SOURCE / "inputs" / "clusters" / "v100-1x8.yaml", *how, "--out", out, "--overwrite",
             *settings({**SIZES, "cluster.mesh.gpus.size": len(speeds),
                        "cluster.devices": f"[{devices}]", "cluster.emulate_dilation": dilation})]
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    with h5py.File(out) as timings:
        return (timings["/strategy"].attrs["predicted_iteration_s"],
                timings["/iterations/wall_s"][1:].mean(),
                timings["/emulation/late_instructions"][1:].sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dilation", type=float, default=400.0)
    dilation = parser.parse_args().dilation
    with tempfile.TemporaryDirectory() as folder:
        for speeds in ([1, 0.5], [1, 0.5, 0.25]):
            file = pathlib.Path(folder, "hints.yaml")
            file.write_text(hints([round(speed / speeds[-1]) for speed in speeds]), encoding="utf-8")
            equal = None
            for name, how in (("dp", ["--strategy", "dp"]), ("in proportion", ["--hints", file]),
                              ("search", ["--strategy", "search"])):
                simulated, emulated, late = step(folder, speeds, how, dilation)
                equal = equal or emulated
                print(f"{speeds} {name}: simulated {1e3 * simulated:.4f} ms, emulated "
                      f"{1e3 * emulated:.4f} ms, {emulated / equal:.3f} of equal parts, {late} late "
                      "instruction(s)", flush=True)
            print(f"the devices' speeds allow {speeds[-1] * len(speeds) / sum(speeds):.3f}")


if __name__ == "__main__":
    main()
