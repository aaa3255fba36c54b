#!/usr/bin/env python3
"""Predicted against measured step times: dense and MoE models under every named strategy, on one
rank, two ranks, and two hosts at three bandwidths. The profiles are taken beforehand, at other
sizes. Prints a table (Markdown) and the median and worst error; asserts nothing. Hosts need root
and jobs/install.sh --testbed. About ten minutes.

    python3 tests/bench/prediction.py [--places one,two,200mbit,1gbit,5gbit]
"""

import argparse
import tempfile

import h5py
import numpy

from places import (DECK, SIZES, SOURCE, STRATEGIES, WARMUP, add_arguments, decks, hidup, prepared,
                    settings)

PROFILED = {"model.hidden": 128, "model.ffn": 640, "model.layers": 2, "model.sequence": 128,
            "train.batch": 12, "train.warmup_steps": 0, "data.path": f"{SOURCE}/src/*/*.cpp"}


def measure(place, out, profile, deck, strategy, microbatches):
    """(measured, predicted) seconds of a step, and predicted over measured memory."""
    hidup(place, "train", deck, "--out", out, "--strategy", strategy,
          *settings({**SIZES, "train.microbatches": microbatches,
                     "cluster.profile": profile}))
    with h5py.File(out) as file:
        strategy = file["strategy"].attrs
        return (numpy.median(file["/iterations/wall_s"][WARMUP:]),
                strategy["predicted_iteration_s"],
                strategy["predicted_peak_bytes"] / file["/ranks/peak_bytes"][:].max())


def table_of(place, folder):
    errors, memory = [], []
    profile = f"{folder}/{place}.yaml"
    hidup(place, "profile", DECK, "--out", profile, *settings(PROFILED))
    for label, deck in decks(folder).items():
        names = ["dp"] if place == "one" else STRATEGIES
        for name in names if label == "MoE" else [n for n in names if not n.startswith("ep-")]:
            for microbatches in (1, 2):
                wall, predicted, peak = measure(place, f"{folder}/run.h5", profile, deck, name,
                                                microbatches)
                errors.append(predicted / wall - 1.0)
                memory.append(abs(peak - 1.0))
                print(f"| {place} | {label} | {name} | {microbatches} | {wall * 1e3:.1f} | "
                      f"{predicted * 1e3:.1f} | {100 * errors[-1]:+.1f} % |", flush=True)
    return errors, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    places = parser.parse_args().places
    print("| ranks or link | model | strategy | microbatches | measured ms | predicted ms | error |"
          "\n|---|---|---|---|---|---|---|")
    errors, memory = [], []
    with tempfile.TemporaryDirectory() as folder, prepared(places) as ready:
        for place in ready:
            for total, some in zip((errors, memory), table_of(place, folder)):
                total.extend(some)
    sizes = numpy.abs(errors)
    print(f"\n{len(sizes)} runs: median error {100 * numpy.median(sizes):.1f} %, worst "
          f"{100 * sizes.max():.1f} %, within 20 %: {100 * (sizes <= 0.2).mean():.0f} %; "
          f"memory within {100 * max(memory):.2f} %")


if __name__ == "__main__":
    main()
