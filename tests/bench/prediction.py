#!/usr/bin/env python3
"""Predicted against measured step times: dense and MoE models under every named strategy, on one
rank, two ranks, and two hosts at three bandwidths. Profiles are taken first, at other sizes. All of
it is done in rounds, each with its own profile. Other work on a machine only adds time, to profiles
and to runs, so the least of the rounds' median steps is compared with the least of their predictions.
Prints a table (Markdown), the median and worst error, the same for medians over the rounds, and the
differences between rounds; asserts nothing. Hosts need root and jobs/install.sh --testbed. Two to
five minutes for a round of a place with two ranks.

    python3 tests/bench/prediction.py [--places one,two,200mbit,1gbit,5gbit] [--rounds 5]
"""

import argparse
import tempfile

import h5py
import numpy

from places import (SIZES, SOURCE, STRATEGIES, WARMUP, add_arguments, decks, hidup, prepared,
                    settings)

PROFILED = {"model.hidden": 128, "model.ffn": 640, "model.layers": 2, "model.sequence": 128,
            "train.batch": 12, "train.warmup_steps": 0, "data.path": f"{SOURCE}/src/*/*.cpp"}
STEPS = 24


def measure(place, folder, deck, strategy, microbatches):
    """Returns (measured, predicted) seconds of a step, and predicted over measured memory."""
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
    """Yields (model, deck, strategy, microbatches) of each row."""
    for model, deck in decks(folder).items():
        names = ["dp"] if place == "one" else STRATEGIES
        for name in names if model == "MoE" else [n for n in names if not n.startswith("ep-")]:
            for microbatches in (1, 2):
                yield model, deck, name, microbatches


class Place:
    """Results of a place's cells: errors of times by the least and by the median round, differences of the
    rounds' measured times, and errors of memory."""

    def __init__(self):
        self.least, self.median, self.spread, self.memory = [], [], [], []

    def add(self, found):
        """Adds a cell's rounds; returns the (measured, predicted) seconds that count."""
        walls, predictions, memory = numpy.array(found).T
        self.least.append(predictions.min() / walls.min() - 1.0)
        self.median.append(numpy.median(predictions) / numpy.median(walls) - 1.0)
        self.spread.append(walls.max() / walls.min() - 1.0)
        self.memory += list(abs(memory - 1.0))
        return walls.min(), predictions.min()


def table_of(place, folder, rounds):
    """Prints the rows."""
    rows = {cell: [] for cell in cells(place, folder)}
    for _ in range(rounds):
        hidup(place, "profile", decks(folder)["MoE"], "--out", f"{folder}/profile.yaml",
              *settings(PROFILED))
        for cell, found in rows.items():
            found.append(measure(place, folder, *cell[1:]))
    result = Place()
    for (model, _, name, microbatches), found in rows.items():
        wall, predicted = result.add(found)
        print(f"| {place} | {model} | {name} | {microbatches} | {wall * 1e3:.1f} | "
              f"{predicted * 1e3:.1f} | {100 * result.least[-1]:+.1f} % |", flush=True)
    return result


def summary(title, places):
    def line(errors):
        sizes = numpy.abs(numpy.concatenate(errors))
        return (f"median error {100 * numpy.median(sizes):.1f} %, worst {100 * sizes.max():.1f} %, "
                f"within 15 %: {100 * (sizes <= 0.15).mean():.0f} %")

    spread = numpy.concatenate([place.spread for place in places])
    return (f"{title}: {len(spread)} cells, {line([place.least for place in places])}; medians of "
            f"the rounds: {line([place.median for place in places])}; a cell's slowest round takes "
            f"{100 * numpy.median(spread):.0f} % longer than its fastest, at most "
            f"{100 * spread.max():.0f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print("| ranks or link | model | strategy | microbatches | measured ms | predicted ms | error |"
          "\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, prepared(options.places) as ready:
        found = {place: table_of(place, folder, options.rounds) for place in ready}
    print()
    for place, result in found.items():
        print(summary(place, [result]))
    print(summary("all", found.values()))
    print(f"memory within {100 * max(max(place.memory) for place in found.values()):.2f} %")


if __name__ == "__main__":
    main()
