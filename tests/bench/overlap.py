#!/usr/bin/env python3
"""Communication that two microbatches hide: two hosts of the test bed, whose link is throttled until
communication takes as long as computation. Needs root and jobs/install.sh --testbed; about five
minutes. Prints ratios; asserts nothing.

    python3 tests/bench/overlap.py [STRATEGY...]

For each strategy the same program runs with train.overlap off, for the times of computation and
communication alone, and on with 1 and 2 microbatches. Medians over the steps, slowest rank.
"""

import argparse
import pathlib
import subprocess
import tempfile

import h5py
import numpy

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TESTBED = SOURCE / "jobs" / "testbed"
SIZES = {"model.hidden": 256, "model.ffn": 1024, "model.layers": 4, "model.sequence": 128,
         "train.batch": 16, "train.steps": 14, "train.warmup_steps": 0,
         "train.timeline_every": 1000000, "cluster.profile": "none"}
WARMUP = 4  # steps that do not count


def train(out, strategy, microbatches, overlap):
    """Returns (wall, compute, communication, exposed) in s."""
    settings = {**SIZES, "train.microbatches": microbatches, "train.overlap": overlap}
    command = [TESTBED / "run.sh", "-n", "2", SOURCE / "build" / "hidup", "train",
               SOURCE / "inputs" / "models" / "tiny.yaml",
               "--cluster", SOURCE / "inputs" / "clusters" / "laptop.yaml",
               "--strategy", strategy, "--out", out, "--overwrite"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    with h5py.File(out) as file:
        wall = numpy.median(file["/iterations/wall_s"][WARMUP:])
        busy = [numpy.median(file[f"/ranks/{name}"][WARMUP:].max(axis=1))
                for name in ("compute_s", "comm_s", "exposed_comm_s")]
    return wall, *busy


def throttle(rate):
    subprocess.run([TESTBED / "rate.sh", f"{rate / 1e6:.0f}mbit"], check=True,
                   stdout=subprocess.DEVNULL)


def balance(out, strategy):
    """Sets and returns the rate (bit/s) at which communication takes as long as computation."""
    rate = 2e9
    for _ in range(3):
        throttle(rate)
        _, compute, comm, _ = train(out, strategy, 2, "off")
        if abs(comm / compute - 1.0) < 0.05:
            break
        rate *= comm / compute
    return rate


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("strategies", nargs="*", metavar="STRATEGY",
                        default=["dp", "ep-deepspeed", "megatron", "fsdp"])
    names = parser.parse_args().strategies
    subprocess.run([TESTBED / "up.sh"], check=True)
    try:
        print(f"{'strategy':14} {'Mbit/s':>7} {'compute':>9} {'comm':>9} {'k=1':>9} {'k=2':>9} "
              f"{'k=2/sum':>8} {'k=2/max':>8} {'exposed':>9}  (ms)")
        with tempfile.TemporaryDirectory() as folder:
            out = f"{folder}/run.h5"
            for name in names:
                rate = balance(out, name)
                _, compute, comm, _ = train(out, name, 2, "off")
                one, *_ = train(out, name, 1, "on")
                two, *_, exposed = train(out, name, 2, "on")
                print(f"{name:14} {rate / 1e6:7.0f} {compute * 1e3:9.1f} {comm * 1e3:9.1f} "
                      f"{one * 1e3:9.1f} {two * 1e3:9.1f} {two / (compute + comm):8.2f} "
                      f"{two / max(compute, comm):8.2f} {exposed * 1e3:9.1f}", flush=True)
    finally:
        subprocess.run([TESTBED / "down.sh"], check=True)


if __name__ == "__main__":
    main()
