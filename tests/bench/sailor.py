#!/usr/bin/env python3
"""Seven measured iterations of OPT-350M (Sailor, SOSP 2025) beside what `hidup schedule` says of their stages'
measured times: 1f1b with the slowest replica of every stage, plus the largest update and the measured reduction
of gradients. Prints the errors without moves between stages, with moves beside the computation, and with moves
that hold both devices, as DeepSpeed's blocking sends and receives do; how they change with the size of an
element and the bandwidth; and what unequal numbers of microbatches would give where replicas are unequal. Needs
the data, which are not part of hidup: a CSV file with the columns of ROW. Asserts nothing. Some seconds.

    python3 tests/bench/sailor.py sailor.csv [--element 4] [--bandwidth 1]
"""

import argparse
import csv
import itertools
import json
import pathlib
import statistics
import subprocess

from places import SOURCE

ROW = ("plan", "stage", "stages", "data_parallel", "microbatches", "microbatch", "device", "replicas", "forward_s",
       "backward_s", "update_s", "reduction_s", "measured_s")
SEQUENCE, HIDDEN = 2048, 1024  # of OPT-350M, as the runs have it: what passes between two stages
# Bytes per second from a GPU to one on another machine, the most that Sailor's artifact measured.
BANDWIDTHS = {"GH-96": 22.93e9, "RTX-2080": 2.86e9, "Titan-RTX": 2.86e9, "RTX-3090": 0.116e9}
MOVES = {"none": (), "beside": (), "hold": ("--moves-hold",)}


def read(path):
    """Returns {plan: {stage: its rows}}."""
    plans = {}
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        missing = set(ROW) - set(rows.fieldnames or ())
        if missing:
            raise SystemExit(f"sailor.py: {path}: there is no column {', '.join(sorted(missing))}")
        for row in rows:
            plans.setdefault(row["plan"], {}).setdefault(int(row["stage"]), []).append(row)
    return plans


def rows_of(plan):
    return list(itertools.chain(*plan.values()))


def seconds_of(row):
    """Returns the seconds of a microbatch."""
    return float(row["forward_s"]) + float(row["backward_s"])


def move_s(rows, element, faster):
    """Returns the seconds of a microbatch's activations, over the slowest link of these devices."""
    size = int(rows[0]["microbatch"]) * SEQUENCE * HIDDEN * element
    return size / (faster * min(BANDWIDTHS[row["device"]] for row in rows))


def makespan(stages, microbatches, move, how):
    """Returns the seconds of 1f1b, from a row for each stage."""
    words = [SOURCE / "build" / "hidup", "schedule", "1f1b", "--stages", len(stages), "--microbatches", microbatches,
             "--times", "0s,0s,0s", "--move", f"{0.0 if how == 'none' else move:.9f}s", *MOVES[how], "--json"]
    for option in ("forward", "backward"):
        words += [f"--{option}", ",".join(f"{row[option + '_s']}s" for row in stages)]
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return json.loads(result.stdout)["makespan_s"]


def predicted(plan, how, element, faster):
    rows = rows_of(plan)
    slowest = [max(plan[stage], key=seconds_of) for stage in sorted(plan)]
    return (makespan(slowest, int(rows[0]["microbatches"]), move_s(rows, element, faster), how) + rest(rows))


def rest(rows):
    """Returns the seconds behind the last backward pass."""
    return max(float(row["update_s"]) for row in rows) + float(rows[0]["reduction_s"])


def errors(plans, how, element, faster):
    """Returns {plan: error} as parts of the measured iteration."""
    return {name: predicted(plan, how, element, faster) / float(rows_of(plan)[0]["measured_s"]) - 1
            for name, plan in plans.items()}


def summary(found):
    worst = max(found, key=lambda name: abs(found[name]))
    return (f"median {100 * statistics.median(map(abs, found.values())):.1f} %, worst "
            f"{100 * found[worst]:+.1f} % ({worst})")


def pipelines(plan):
    """Yields the ways to join the replicas of the stages: for each a list of pipelines, which have a row per
    stage. The data do not say which replica sends to which."""
    replicas = [[row for row in plan[stage] for _ in range(int(row["replicas"]))] for stage in sorted(plan)]
    seen = set()
    for others in itertools.product(*(itertools.permutations(each) for each in replicas[1:])):
        joined = list(zip(replicas[0], *others))
        key = tuple(sorted(tuple(row["device"] for row in pipeline) for pipeline in joined))
        if key not in seen:
            seen.add(key)
            yield joined


def divided(number, weights):
    """Returns whole numbers in proportion to the weights, which add up to the number."""
    exact = [number * weight / sum(weights) for weight in weights]
    parts = [int(each) for each in exact]
    for place in sorted(range(len(parts)), key=lambda place: parts[place] - exact[place])[:number - sum(parts)]:
        parts[place] += 1
    return parts


def tell_unequal(name, plan, element, faster):
    """Prints what microbatches in inverse proportion to the pipelines' times would give."""
    rows = rows_of(plan)
    equal = predicted(plan, "beside", element, faster)
    for joined in pipelines(plan):
        numbers = divided(int(rows[0]["microbatches"]) * len(joined),
                          [1 / max(map(seconds_of, pipeline)) for pipeline in joined])
        unequal = rest(rows) + max(
            makespan(pipeline, number, move_s(pipeline, element, faster), "beside")
            for pipeline, number in zip(joined, numbers))
        shown = ", ".join(f"{number} on {' -> '.join(row['device'] for row in pipeline)}"
                          for pipeline, number in zip(joined, numbers))
        print(f"{name}: {shown}: {unequal:.2f} s, {unequal / equal:.3f} of {equal:.2f} s with "
              f"{rows[0]['microbatches']} each")


def tell_errors(plans, element, faster):
    print(f"{'plan':<18} {'measured':>9}" + "".join(f" {f'moves: {how}':>19}" for how in MOVES))
    by_how = {how: errors(plans, how, element, faster) for how in MOVES}
    for name, plan in plans.items():
        measured = float(rows_of(plan)[0]["measured_s"])
        print(f"{name:<18} {measured:8.4f}s" + "".join(
            f" {measured * (1 + found[name]):8.4f}s {100 * found[name]:+7.2f} %" for found in by_how.values()))
    for how, found in by_how.items():
        print(f"moves {how}: {summary(found)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--element", type=int, choices=(2, 4), default=4,
                        help="bytes of an element: the artifact's job sets no 16-bit precision")
    parser.add_argument("--bandwidth", type=float, default=1.0, help="factor of the links' bandwidths")
    options = parser.parse_args()
    plans = read(options.data)
    tell_errors(plans, options.element, options.bandwidth)
    print("\nother sizes of an element and bandwidths")
    for how, element, factor in itertools.product(("beside", "hold"), (2, 4), (0.5, 1.0, 2.0)):
        found = errors(plans, how, element, factor * options.bandwidth)
        print(f"moves {how}, {element} bytes, bandwidth x {factor:g}: {summary(found)}")
    print("\nunequal numbers of microbatches")
    for name, plan in plans.items():
        if any(len(rows) > 1 for rows in plan.values()):
            tell_unequal(name, plan, options.element, options.bandwidth)


if __name__ == "__main__":
    main()
