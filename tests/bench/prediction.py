#!/usr/bin/env python3
"""Predicted against measured step times: dense and MoE models under every named strategy, on one
rank, two ranks, and two hosts at three bandwidths. The profiles are taken beforehand, at other
sizes. All of it is done in three rounds, and the medians count. A machine's pace changes from minute
to minute (pace.py): a profile and a run count if the pace before and after is that of the round's
profile, otherwise they are taken again. What they measured has no say in that. Prints a table
(Markdown) and the median and worst error; asserts nothing. Hosts need root and jobs/install.sh
--testbed. About a quarter of an hour for each place with two ranks.

    python3 tests/bench/prediction.py [--places one,two,200mbit,1gbit,5gbit] [--rounds 3]
"""

import argparse
import tempfile

import h5py
import numpy

from pace import pacer
from places import (SIZES, SOURCE, STRATEGIES, WARMUP, add_arguments, decks, hidup, prepared,
                    settings)

PROFILED = {"model.hidden": 128, "model.ffn": 640, "model.layers": 2, "model.sequence": 128,
            "train.batch": 12, "train.warmup_steps": 0, "data.path": f"{SOURCE}/src/*/*.cpp"}
STEPS = 24
SAME_PACE = 0.05  # how far apart paces that count as one may be
TRIES = 3         # after which a profile or a run counts at any pace


class Steady:
    """Takes measurements while the machine has one pace, which begin() chooses."""

    def __init__(self, pace):
        self.pace = pace
        self.wanted = None
        self.repeated = 0
        self.unsteady = 0

    def begin(self):
        self.wanted = None

    def take(self, measurement):
        """What measurement() returns at the pace of the first one since begin()."""
        for _ in range(TRIES):
            before = self.pace()
            found = measurement()
            after = self.pace()
            wanted = self.wanted or before
            if max(abs(before - wanted), abs(after - wanted)) <= SAME_PACE * wanted:
                self.wanted = self.wanted or (before + after) / 2
                return found
            self.repeated += 1
        self.wanted = self.wanted or after
        self.unsteady += 1
        return found


def measure(place, folder, deck, strategy, microbatches):
    """(measured, predicted) seconds of a step, and predicted over measured memory."""
    out = f"{folder}/run.h5"
    hidup(place, "train", deck, "--out", out, "--strategy", strategy,
          *settings({**SIZES, "train.steps": STEPS, "train.microbatches": microbatches,
                     "cluster.profile": f"{folder}/profile.yaml"}))
    with h5py.File(out) as file:
        strategy = file["strategy"].attrs
        return (numpy.median(file["/iterations/wall_s"][WARMUP:]),
                strategy["predicted_iteration_s"],
                strategy["predicted_peak_bytes"] / file["/ranks/peak_bytes"][:].max())


def cells(place, folder):
    """(model, deck, strategy, microbatches) of each row."""
    for model, deck in decks(folder).items():
        names = ["dp"] if place == "one" else STRATEGIES
        for name in names if model == "MoE" else [n for n in names if not n.startswith("ep-")]:
            for microbatches in (1, 2):
                yield model, deck, name, microbatches


def table_of(place, folder, rounds, steady):
    """Errors of times and of memory; prints the rows."""
    rows = {cell: [] for cell in cells(place, folder)}
    moe = decks(folder)["MoE"]
    for _ in range(rounds):
        steady.begin()
        steady.take(lambda: hidup(place, "profile", moe, "--out", f"{folder}/profile.yaml",
                                  *settings(PROFILED)))
        for cell, found in rows.items():
            found.append(steady.take(lambda cell=cell: measure(place, folder, *cell[1:])))
    errors, memory = [], []
    for (model, _, name, microbatches), found in rows.items():
        wall, predicted, _ = numpy.median(found, axis=0)
        errors.append(predicted / wall - 1.0)
        memory += [abs(peak - 1.0) for _, _, peak in found]
        print(f"| {place} | {model} | {name} | {microbatches} | {wall * 1e3:.1f} | "
              f"{predicted * 1e3:.1f} | {100 * errors[-1]:+.1f} % |", flush=True)
    return errors, memory


def summary(runs, errors):
    sizes = numpy.abs(errors)
    return (f"{runs}: {len(sizes)} runs, median error {100 * numpy.median(sizes):.1f} %, worst "
            f"{100 * sizes.max():.1f} %, within 15 %: {100 * (sizes <= 0.15).mean():.0f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| ranks or link | model | strategy | microbatches | measured ms | predicted ms | error |"
          "\n|---|---|---|---|---|---|---|")
    errors, memory = {}, []
    with tempfile.TemporaryDirectory() as folder, prepared(options.places) as ready, \
            pacer() as pace:
        steady = Steady(pace)
        for place in ready:
            errors[place], some = table_of(place, folder, options.rounds, steady)
            memory += some
    print()
    for place, some in errors.items():
        print(summary(place, some))
    print(summary("all", [each for some in errors.values() for each in some]))
    print(f"taken again for the machine's pace: {steady.repeated}; at any pace in the end: "
          f"{steady.unsteady}")
    print(f"memory within {100 * max(memory):.2f} %")


if __name__ == "__main__":
    main()
