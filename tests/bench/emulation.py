#!/usr/bin/env python3
"""Emulated against simulated step times: bert-sgmoe at small size under named strategies, with one,
two and four microbatches, for three clusters, on 2 to 16 CPU ranks in turn, by jobs/rehearse.sh.
Prints a row per cell (Markdown): the simulated step; the excess of the emulated step and of wall time
over dilation; the late instructions; the floor that no order of the instructions can beat, and wall
time over it. At the end medians and worst. Asserts nothing. Other work on the machine makes
instructions late, so there should be none. Ten minutes on two cores.

    python3 tests/bench/emulation.py [--ranks 2,4,8,16] [--every 1]
"""

import argparse
import itertools
import os
import re
import subprocess

import numpy

from places import SOURCE

STRATEGIES = ["dp", "zero1", "fsdp", "ep-deepspeed", "megatron", "megatron-sp", "ps"]
CLUSTERS = ["laptop", "v100-2x4-30gbps-flat", "v100-8x8-10gbps-flat"]
MICROBATCHES = [1, 2, 4]
# Aims for a step on a machine without other work.
AIMS = {"emulated": (2.0, 6.0), "wall": (2.0, 6.0), "late": (1.0, 1.0)}


def rehearse(cluster, ranks, strategy, microbatches):
    """Returns the first number of each line that jobs/rehearse.sh prints, by the line's first word."""
    result = subprocess.run(
        [SOURCE / "jobs" / "rehearse.sh", SOURCE / "inputs" / "models" / "bert-sgmoe.yaml",
         SOURCE / "inputs" / "clusters" / f"{cluster}.yaml", str(ranks),
         f"train.microbatches={microbatches}"],
        env={**os.environ, "STRATEGY": strategy}, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    found = dict(re.findall(r"^(\w+)[^\n\d]* ([\d.]+)", result.stdout, re.M))
    numbers = {name: float(found[name]) for name in ("simulated", "emulated", "wall", "floor")}
    late, of = re.search(r"^late +(\d+) of (\d+)", result.stdout, re.M).groups()
    dilation = re.search(r"dilation ([\d.e+]+)", result.stdout).group(1)
    return {**numbers, "late": 100.0 * int(late) / int(of), "dilation": dilation}


def summary(name, values):
    sizes = numpy.abs(values)
    median, worst = AIMS[name]
    return (f"{name}: median {numpy.median(sizes):.3f} %, worst {sizes.max():.3f} % "
            f"(aims: {median:g} and {worst:g} %)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="2,4,8,16",
                        type=lambda text: [int(ranks) for ranks in text.split(",")])
    parser.add_argument("--every", type=int, default=1, help="leaves out all but every such cell")
    options = parser.parse_args()
    print("| cluster | ranks | strategy | k | dilation | simulated ms | emulated | wall / dilation |"
          " late | floor ms | wall / floor |\n|---|---|---|---|---|---|---|---|---|---|---|")
    cells = list(zip(itertools.product(CLUSTERS, STRATEGIES, MICROBATCHES),
                     itertools.cycle(options.ranks)))[::options.every]
    found = {name: [] for name in AIMS}
    floors = []
    for (cluster, strategy, microbatches), ranks in cells:
        cell = rehearse(cluster, ranks, strategy, microbatches)
        found["emulated"].append(100.0 * (cell["emulated"] / cell["simulated"] - 1.0))
        found["wall"].append(100.0 * (cell["wall"] / cell["simulated"] - 1.0))
        found["late"].append(cell["late"])
        floors.append(cell["wall"] / cell["floor"])
        print(f"| {cluster} | {ranks} | {strategy} | {microbatches} | {cell['dilation']} | "
              f"{cell['simulated']:.4f} | {found['emulated'][-1]:+.3f} % | "
              f"{found['wall'][-1]:+.3f} % | {cell['late']:.2f} % | {cell['floor']:.4f} | "
              f"{floors[-1]:.3f} |", flush=True)
    print(f"\n{len(cells)} cells")
    for name, values in found.items():
        print(summary(name, values))
    print(f"wall / floor: median {numpy.median(floors):.3f}, worst {max(floors):.3f}; at most 1.05 "
          f"in {sum(ratio <= 1.05 for ratio in floors)} cells")


if __name__ == "__main__":
    main()
