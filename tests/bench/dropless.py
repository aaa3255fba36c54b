#!/usr/bin/env python3
"""Compares steps without capacity (model.moe.capacity_factor: none) with those of capacity 1.25, in turn,
on two ranks: with tokens spread over the experts at random (router hash), and with a learned router,
whose loads are uneven. The 20 % quantile of the steps counts, because other work on a machine adds to
most of them. "largest" is the measured largest load over the mean, of the run without capacity. Prints
a table (Markdown); asserts nothing. About five minutes.

    python3 tests/bench/dropless.py [--rounds 4] [--steps 20]
"""

import argparse
import tempfile

import h5py
import numpy

from places import WARMUP, hidup, paper_deck, settings

SIZES = {"model.layers": 4, "model.hidden": 256, "model.ffn": 1024, "model.heads": 4,
         "model.moe.experts": 8, "train.batch": 16, "model.sequence": 128}
ROUTERS = {"even (hash)": {"model.moe.router": "hash", "model.moe.top_k": 2},
           "learned (top2)": {"model.moe.router": "top2"}}
STRATEGIES = "dp", "ep-fastmoe"
CAPACITIES = "1.25", "none"


def steps_of(folder, keys, strategy, steps):
    """Returns the seconds of the steps, and the mean largest load over the mean."""
    out = f"{folder}/run.h5"
    hidup("two", "train", paper_deck("bert-sgmoe"), "--out", out, "--strategy", strategy,
          *settings({**keys, "train.steps": steps + WARMUP}))
    with h5py.File(out) as file:
        tokens = file["experts/tokens"][WARMUP:]
        largest = (tokens.max(axis=2) / tokens.mean(axis=2)).mean()
        return list(file["/iterations/wall_s"][WARMUP:]), largest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    print("| router | strategy | capacity 1.25 | none | ratio | largest |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for router, choice in ROUTERS.items():
            for strategy in STRATEGIES:
                times = {capacity: [] for capacity in CAPACITIES}
                for _ in range(arguments.rounds):
                    for capacity in CAPACITIES:
                        keys = {**SIZES, **choice, "model.moe.capacity_factor": capacity}
                        seconds, largest = steps_of(folder, keys, strategy, arguments.steps)
                        times[capacity] += seconds
                with_slots, without = (numpy.quantile(times[each], 0.2) for each in CAPACITIES)
                print(f"| {router} | {strategy} | {1e3 * with_slots:.1f} ms | {1e3 * without:.1f} ms "
                      f"| {without / with_slots:.3f} | {largest:.2f} |", flush=True)


if __name__ == "__main__":
    main()
