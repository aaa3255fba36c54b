#!/usr/bin/env python3
"""Predicted against measured step times of experts without capacity under recorded loads. A router without
a balance loss learns for some steps until it prefers some experts; `analysis experts --loads` writes the
loads of its second half. The router `trace` gives them to runs whose predictions take them, too
(model.moe.load): under dp, expert parallelism and the strategy that the search finds for them; also under
expert parallelism predicted from even loads. Two hosts, with one and two ranks each, at some bandwidths;
ranks of a host share its cores. All of it is done in rounds, each with its own profile. The median step of
the second half counts; other work on a machine only adds time, so the least of the rounds is compared with
the least of their predictions. Prints a table (Markdown), the median and the worst error, the same for
medians over the rounds; asserts nothing. Needs root and jobs/install.sh --testbed. On a machine that others
use too, `nice -n -20` before it keeps most of their work away. Five minutes a round.

    python3 tests/bench/loads.py [--places 1gbit,10gbit] [--ranks 2,4] [--rounds 3]
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy

from places import DECK, SOURCE, hidup, prepared, settings

STEPS = 48
SIZES = {"model.hidden": 192, "model.ffn": 768, "model.layers": 2, "model.sequence": 96,
         "model.moe.experts": 8, "model.moe.every": 1, "model.moe.capacity_factor": "none",
         "model.moe.balance_loss": 0, "train.batch": 16, "train.warmup_steps": 0, "train.lr": 1e-3,
         "train.steps": STEPS, "data.path": f"{SOURCE}/src/*/*.cpp"}
# Name: (strategy, whether the prediction takes the recorded loads).
CELLS = {"dp": ("dp", True), "ep": ("ep-fastmoe", True), "search": ("search", True),
         "ep, even": ("ep-fastmoe", False)}


def record_loads(place, folder, ranks):
    """Returns a file with the loads that all cells have."""
    out, loads = f"{folder}/recorded.h5", f"{folder}/loads.txt"
    hidup(place, "train", DECK, "--out", out, "--strategy", "dp",
          *settings({**SIZES, "cluster.profile": "none"}), ranks=ranks)
    subprocess.run([sys.executable, "-m", "analysis", "experts", out, "--out", f"{folder}/loads.png",
                    "--loads", loads], cwd=SOURCE, check=True, stdout=subprocess.DEVNULL)
    return loads


def parts_of(loads, ranks):
    """Returns the largest part of a layer's rows on one rank, over the mean; loads: [layers, experts]."""
    per_rank = loads.reshape(len(loads), ranks, -1).sum(axis=2)
    return (per_rank.max(axis=1) / per_rank.mean(axis=1)).max()


def measure(place, folder, name, loads, ranks):
    """Returns (measured, predicted) seconds of a step, and the measured parts_of() the loads."""
    strategy, takes_loads = CELLS[name]
    out = f"{folder}/run.h5"
    keys = {**SIZES, "cluster.profile": f"{folder}/profile.yaml",
            "model.moe.router": "trace", "model.moe.top_k": 2, "data.trace": loads,
            **({"model.moe.load": loads} if takes_loads else {})}
    hidup(place, "train", DECK, "--out", out, "--strategy", strategy, *settings(keys), ranks=ranks)
    with h5py.File(out) as file:
        tokens = file["experts/tokens"][STEPS // 2:].mean(axis=0)
        return (numpy.median(file["/iterations/wall_s"][STEPS // 2:]),
                file["strategy"].attrs["predicted_iteration_s"], parts_of(tokens, ranks))


def errors_of(rows):
    """Returns the errors by the least round, and by the median round."""
    rounds = [numpy.array(found).T[:2] for found in rows]
    return ([predicted.min() / wall.min() - 1.0 for wall, predicted in rounds],
            [numpy.median(predicted) / numpy.median(wall) - 1.0 for wall, predicted in rounds])


def table_of(place, folder, ranks, rounds):
    """Prints the rows; returns {name: [(measured, predicted, part) of each round]}."""
    rows = {name: [] for name in CELLS}
    loads = record_loads(place, folder, ranks)
    expected = parts_of(numpy.loadtxt(loads), ranks)
    for _ in range(rounds):
        hidup(place, "profile", DECK, "--out", f"{folder}/profile.yaml", *settings(SIZES), ranks=ranks)
        for name, found in rows.items():
            found.append(measure(place, folder, name, loads, ranks))
    for name, found in rows.items():
        (error,), (of_medians,) = errors_of([found])
        wall, predicted, part = numpy.array(found).T
        took = expected if CELLS[name][1] else 1.0
        print(f"| {place} | {ranks} | {name} | {took:.2f} | {part[0]:.2f} | {wall.min() * 1e3:.1f} | "
              f"{predicted.min() * 1e3:.1f} | {100 * error:+.1f} % | {100 * of_medians:+.1f} % |",
              flush=True)
    return rows


def line(errors):
    sizes = numpy.abs(errors)
    return f"median error {100 * numpy.median(sizes):.1f} %, worst {100 * sizes.max():.1f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--places", default="1gbit,10gbit", type=lambda text: text.split(","))
    parser.add_argument("--ranks", default="2,4",
                        type=lambda text: [int(each) for each in text.split(",")])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", metavar="FOLDER", help="keep the last profile and timing file there")
    options = parser.parse_args()
    print("| link | ranks | strategy | expected part | measured part | measured ms | predicted ms | error | "
          "by medians |\n|---|---|---|---|---|---|---|---|---|")
    found = []
    with tempfile.TemporaryDirectory() as temporary, prepared(options.places) as ready:
        folder = options.keep or temporary
        pathlib.Path(folder).mkdir(exist_ok=True)
        for place in ready:
            for ranks in options.ranks:
                rows = table_of(place, folder, ranks, options.rounds)
                found += [rows[name] for name in CELLS if CELLS[name][1]]
    by_least, by_median = errors_of(found)
    print(f"\nunder recorded loads, {len(found)} cells: {line(by_least)}; medians of the rounds: "
          f"{line(by_median)}")


if __name__ == "__main__":
    main()
