#!/usr/bin/env python3
"""Compares the searched strategy with the fastest: steps measured under it and under every named
strategy with one and two microbatches, on one rank, two ranks, and two hosts at three bandwidths; the
paper's four models at small size, with batches of 16 and 2. Profiles are taken first, at the sizes of
the models. The two fastest and the searched one are then measured four times in turn. The 20 %
quantile of the steps counts, because other work on a machine adds to most of them. "same": the
searched one is the fastest one's program. Prints a table (Markdown) and the number of cells in which
the searched one is within 3 % of the fastest; asserts nothing. Hosts need root and jobs/install.sh
--testbed. About three quarters of an hour.

    python3 tests/bench/fastest.py [--places one,two,200mbit,1gbit,5gbit] [--batches 16,2]
"""

import argparse
import tempfile

import h5py
import numpy

from places import (KINDS, STRATEGIES, WARMUP, add_arguments, hidup, paper_deck, prepared,
                    settings)

AGAIN = 2  # number of fastest ones measured again, so many times:
ROUNDS = 4
STEPS = WARMUP + 6  # of a first look; counted runs take more where steps are short
LEAST_S = 1.5
SEARCHED = "search", "auto"


def step(place, folder, kind, keys, strategy, steps=STEPS):
    """Returns (seconds of the steps, (name, microbatches), the program's identity) under (name,
    microbatches)."""
    name, microbatches = strategy
    out = f"{folder}/run.h5"
    hidup(place, "train", paper_deck(kind), "--out", out, "--strategy", name,
          *settings({**keys, "train.microbatches": microbatches, "train.steps": steps}))
    with h5py.File(out) as file:
        found = file["strategy"].attrs
        text = file["strategy/text"].asstr()[()]
        chosen = found["name"], int(text.split("\nmicrobatches: ")[1].split("\n")[0])
        program = chosen[1], found["predicted_iteration_s"], found["predicted_peak_bytes"]
        return list(file["/iterations/wall_s"][WARMUP:]), chosen, program


def typical(seconds):
    return numpy.quantile(seconds, 0.2)


def cell(place, folder, kind, batch):
    """Prints a row of the table; returns the searched strategy's time over the fastest one's."""
    sizes = {**KINDS[kind], "train.batch": batch}
    keys = {**sizes, "cluster.profile": f"{folder}/profile.yaml"}
    hidup(place, "profile", paper_deck(kind), "--out", keys["cluster.profile"], *settings(sizes))
    named = [(name, k) for name in (["dp"] if place == "one" else STRATEGIES) for k in (1, 2)]
    first = {each: typical(step(place, folder, kind, keys, each)[0]) for each in named}
    best = sorted(first, key=first.get)[:AGAIN]
    steps = WARMUP + int(numpy.clip(LEAST_S / first[best[0]], 8, 60))
    times = {each: [] for each in [SEARCHED, *best]}
    programs, chosen = {}, SEARCHED
    for _ in range(ROUNDS):
        for each, found in times.items():
            seconds, strategy, programs[each] = step(place, folder, kind, keys, each, steps)
            found += seconds
            chosen = strategy if each == SEARCHED else chosen
    searched = typical(times.pop(SEARCHED))
    fastest = min(times, key=lambda each: typical(times[each]))
    seconds = typical(times[fastest])
    same = programs[fastest] == programs[SEARCHED]
    ratio = 1.0 if same else searched / seconds
    print(f"| {place} | {kind} | {batch} | {fastest[0]}, {fastest[1]} | {seconds * 1e3:.1f} | "
          f"{chosen[0]}, {chosen[1]} | {searched * 1e3:.1f} | {'same' if same else f'{ratio:.2f}'} |",
          flush=True)
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--batches", default="16,2",
                        type=lambda text: [int(word) for word in text.split(",")])
    options = parser.parse_args()
    print("| ranks or link | model | batch | fastest named | ms | searched | ms | ratio |\n"
          "|---|---|---|---|---|---|---|---|")
    ratios = []
    with tempfile.TemporaryDirectory() as folder, prepared(options.places) as ready:
        for place in ready:
            for kind in KINDS:
                for batch in options.batches:
                    ratios.append(cell(place, folder, kind, batch))
    near = numpy.mean(numpy.array(ratios) <= 1.03)
    print(f"\n{len(ratios)} cells: the searched strategy is the fastest or within 3 % of it in "
          f"{100 * near:.0f} %; at worst {max(ratios):.2f} times the fastest one's time")


if __name__ == "__main__":
    main()
