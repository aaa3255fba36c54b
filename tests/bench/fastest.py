#!/usr/bin/env python3
"""Whether the strategy that is searched for is the fastest one: steps measured under it and under
every named strategy with one and two microbatches, on one rank, two ranks, and two hosts at three
bandwidths; dense and MoE models, a batch of 16 and one of 2. Profiles are taken beforehand, at the
sizes of the models. The fastest ones and the searched one are measured three times in turn, the
best median counts. Prints a table (Markdown) and in how many cells the searched one is within 3 %
of the fastest; asserts nothing. Hosts need root and jobs/install.sh --testbed. About half an hour.

    python3 tests/bench/fastest.py [--places one,two,200mbit,1gbit,5gbit]
"""

import argparse
import tempfile

import h5py
import numpy

from places import SIZES, STRATEGIES, WARMUP, add_arguments, decks, hidup, prepared, settings

BATCHES = (16, 2)
AGAIN = 3  # of the fastest are measured again


def step(place, folder, deck, sizes, strategy):
    """(seconds, name, microbatches) of a step under (name, microbatches)."""
    name, microbatches = strategy
    out = f"{folder}/run.h5"
    hidup(place, "train", deck, "--out", out, "--strategy", name,
          *settings({**sizes, "train.microbatches": microbatches}))
    with h5py.File(out) as file:
        text = file["strategy/text"].asstr()[()]
        chosen = (file["strategy"].attrs["name"],
                  int(text.split("\nmicrobatches: ")[1].split("\n")[0]))
        return numpy.median(file["/iterations/wall_s"][WARMUP:]), chosen


def cell(place, folder, label, deck, batch):
    """A row of the table, and the searched strategy's time over the fastest one's."""
    sizes = {**SIZES, "train.batch": batch, "cluster.profile": f"{folder}/profile.yaml"}
    hidup(place, "profile", deck, "--out", sizes["cluster.profile"],
          *settings({k: v for k, v in sizes.items() if k != "cluster.profile"}))
    names = [name for name in STRATEGIES if label == "MoE" or not name.startswith("ep-")]
    named = [(name, k) for name in (["dp"] if place == "one" else names) for k in (1, 2)]
    times = {strategy: step(place, folder, deck, sizes, strategy)[0] for strategy in named}
    best = sorted(times, key=times.get)[:AGAIN]
    searched, chosen = step(place, folder, deck, sizes, ("search", "auto"))
    for _ in range(2):
        for strategy in best:
            times[strategy] = min(times[strategy],
                                  step(place, folder, deck, sizes, strategy)[0])
        searched = min(searched, step(place, folder, deck, sizes, ("search", "auto"))[0])
    fastest = min(best, key=times.get)
    ratio = searched / min(searched, times[fastest])
    print(f"| {place} | {label} | {batch} | {fastest[0]}, {fastest[1]} | "
          f"{times[fastest] * 1e3:.1f} | {chosen[0]}, {chosen[1]} | {searched * 1e3:.1f} | "
          f"{searched / times[fastest]:.2f} |", flush=True)
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    places = parser.parse_args().places
    print("| ranks or link | model | batch | fastest named | ms | searched | ms | ratio |\n"
          "|---|---|---|---|---|---|---|---|")
    ratios = []
    with tempfile.TemporaryDirectory() as folder, prepared(places) as ready:
        for place in ready:
            for label, deck in decks(folder).items():
                for batch in BATCHES:
                    ratios.append(cell(place, folder, label, deck, batch))
    near = numpy.mean(numpy.array(ratios) <= 1.03)
    print(f"\n{len(ratios)} cells: the searched strategy is the fastest or within 3 % of it in "
          f"{100 * near:.0f} %; at worst {max(ratios):.2f} times the fastest one's time")


if __name__ == "__main__":
    main()
