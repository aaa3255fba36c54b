#!/usr/bin/env python3
"""Pipelines: on two hosts of the test bed against one host, dp and fsdp; and emulated, the orders of the
stages against gpipe's. The test bed needs root and jobs/install.sh --testbed. Twelve minutes on two cores.
Prints ratios; asserts nothing.

    python3 tests/bench/pipelines.py [--only testbed|emulated] [--rate 50mbit] [--rounds 3]

testbed: a deep, narrow llama with eight groups a step. One host has one core, so with S hosts the step of
a pipeline can't take less than (M + S - 1) / (S M) of one host's: 0.5625 here. Rounds in turn; medians over
the steps and rounds. Idle times beside those of the schedule alone.

emulated: 2, 4 and 8 stages with M = 2 S groups a step under gpipe, 1f1b, interleaved, zb-h1 and v-half. The
emulated step over the simulated one and over gpipe's; idle times beside those of the schedule alone; late
instructions of ranks that computed longer than they had time.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

import h5py
import numpy
import yaml

from places import SOURCE, TESTBED

WARMUP = 3  # steps that do not count
MODEL = {"family": "llama", "layers": 32, "hidden": 96, "ffn": 384, "heads": 4, "sequence": 128, "vocab": 256}
DECK = {"model": MODEL, "data": {"kind": "synthetic"},
        "train": {"batch": 16, "steps": 12, "accumulate": 8}}
DEVICE = {"kind": "cpu", "threads": 1, "flops": "40GFLOPS", "memory_bandwidth": "10GB/s"}
LINK = {"name": "ranks", "size": "auto", "bandwidth": "6.25MB/s", "latency": "100us"}
CLUSTER = {"cluster": {"device": DEVICE, "mesh": [LINK], "profile": "none"}}
SLOW_STEPS = 5  # of strategies that send much
HOSTS = {"one host": (1, "dp", 12), "pipeline": (2, "pipeline", 12), "dp": (2, "dp", SLOW_STEPS),
         "fsdp": (2, "fsdp", SLOW_STEPS)}
ORDERS = ["gpipe", "1f1b", "interleaved", "zb-h1", "v-half"]
CORES = 0.4  # the part of the cores' time that emulated ranks may take


def call(*words):
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{words}: {result.stdout}{result.stderr}")
    return result.stdout


def settings(values):
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


class Run:
    """A finished training run."""

    def __init__(self, folder, launcher, strategy, values):
        path = folder / "run.h5"
        self.text = call(*launcher, SOURCE / "build" / "hidup", "train", folder / "deck.yaml", "--cluster",
                         folder / "cluster.yaml", "--strategy", strategy, "--out", path, "--overwrite",
                         *settings(values))
        with h5py.File(path) as file:
            self.steps = file["/iterations/wall_s"][WARMUP:]
            self.idle = file["/ranks/idle_s"][WARMUP:] if "idle_s" in file["/ranks"] else None
            self.compute = file["/ranks/compute_s"][WARMUP:]
            self.late = (file["/emulation/late_instructions"][WARMUP:].sum()
                         if "emulation" in file else 0)

    def step(self):
        return statistics.median(self.steps)

    def idle_percent(self):
        """Returns the mean of all ranks and steps, and that of the schedule alone, as the run printed it."""
        alone = re.search(r"\(the schedule \S+ alone: ([\d.]+) %\)", self.text)
        return 100.0 * (self.idle / self.steps[:, None]).mean(), float(alone[1])


def on_hosts(folder, rate, rounds):
    found = {name: [] for name in HOSTS}
    call(TESTBED / "up.sh", "--rate", rate)
    try:
        for _ in range(rounds):
            for name, (ranks, strategy, steps) in HOSTS.items():
                found[name].append(Run(folder, [TESTBED / "run.sh", "-n", ranks], strategy,
                                       {"train.steps": steps}))
    finally:
        call(TESTBED / "down.sh")
    print(f"two hosts of one core, {rate}\n\n| | step | over one host's | computation of the slowest rank | idle "
          "| by the schedule |\n|---|---|---|---|---|---|")
    one = statistics.median(numpy.concatenate([run.steps for run in found["one host"]]))
    for name, runs in found.items():
        step = statistics.median(numpy.concatenate([run.steps for run in runs]))
        compute = statistics.median(run.compute.max(axis=1).mean() for run in runs)
        idle = [run.idle_percent() for run in runs if run.idle is not None]
        told = (f"{statistics.mean(part for part, _ in idle):.1f} % | {idle[0][1]:.1f} %" if idle else " | ")
        print(f"| {name} | {step:.3f} s | {step / one:.3f} | {compute:.3f} s | {told} |")
    print("ratio of the pipeline to one host, round by round: " +
          ", ".join(f"{pipeline.step() / alone.step():.3f}"
                    for alone, pipeline in zip(found["one host"], found["pipeline"])), flush=True)


def simulated(folder, ranks, values):
    """Returns the simulated step in seconds."""
    text = call(SOURCE / "build" / "hidup", "explain", folder / "deck.yaml", "--cluster",
                folder / "cluster.yaml", "--strategy", "pipeline", "--ranks", ranks, "--json",
                *settings(values))
    return json.loads(text)["predicted_iteration_s"]


def emulated(folder):
    print("\nemulated\n\n| stages | order | simulated | emulated over it | over gpipe's | idle | by the schedule | late |"
          "\n|---|---|---|---|---|---|---|---|")
    for stages in (2, 4, 8):
        gpipe = None
        for order in ORDERS:
            # Links are fast, so that idle times are those of the order.
            values = {"model.layers": 2 * stages, "model.hidden": 64, "model.ffn": 128,
                      "train.accumulate": 2 * stages, "train.batch": 2 * stages, "train.steps": 8,
                      "cluster.mesh.ranks.bandwidth": "10GB/s", "cluster.mesh.ranks.latency": "1us",
                      "train.pipeline": order}
            predicted = simulated(folder, stages, {**values, "cluster.emulate": "on"})
            launcher = ["bash", "-c", f'source {SOURCE}/jobs/environment.sh && exec mpirun -n {stages} "$@"',
                        "bash"]
            needed = Run(folder, launcher, "pipeline", values).step()
            run = Run(folder, launcher, "pipeline",
                      {**values, "cluster.emulate": "on",
                       "cluster.emulate_dilation": f"{max(0.5, needed / CORES) / predicted:.3g}"})
            gpipe = gpipe or run.step()
            idle, alone = run.idle_percent()
            print(f"| {stages} | {order} | {1e3 * predicted:.3f} ms | {run.step() / predicted:.5f} | "
                  f"{run.step() / gpipe:.3f} | {idle:.1f} % | {alone:.1f} % | {run.late} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["testbed", "emulated"])
    parser.add_argument("--rate", default="50mbit")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "deck.yaml").write_text(yaml.safe_dump(DECK), encoding="utf-8")
        (folder / "cluster.yaml").write_text(yaml.safe_dump(CLUSTER), encoding="utf-8")
        if options.only != "emulated":
            on_hosts(folder, options.rate, options.rounds)
        if options.only != "testbed":
            emulated(folder)


if __name__ == "__main__":
    main()
