#!/usr/bin/env python3
"""Effects of the order of a mesh's axes on predicted step times, which should be none: every shipped
model x every shipped cluster of two axes x every strategy (the names, three combinations of two
names, and the search), with the cluster deck as it is and with the two entries of cluster.mesh in
the other order. Needs only the program; 23 minutes on one core. Prints a line per model and cluster
with its largest difference, at the end the number of comparisons and the failed ones.

    python3 tests/bench/axes.py [--only REGEX] [--binary build/hidup] [--timeout 120]

--only: lines whose "MODEL CLUSTER" the expression finds, such as 'bert.* v100-8x8'.

Named strategies are predicted whether or not they fit in the memory. Hints that leave the search no
choice make these calls five times as fast; a named strategy ignores hints and limit. The search has
the deck's memory and also lists other strategies ("candidates"): those that both orders list with
equal numbers of microbatches are compared, too.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import tempfile

import numpy
import yaml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
INPUTS = SOURCE / "inputs"
NAMES = ["dp", "zero1", "fsdp", "fsdp-kept", "hsdp", "ep-deepspeed", "ep-fastmoe", "megatron",
         "megatron-sp",
         "ps", "min-comm"]
PAIRS = [("dp", "megatron"), ("megatron", "dp"), ("dp", "ep-deepspeed")]  # on the deck's axes
MUCH = 0.01
HINTS = """operations: [{op: '*', rule: [replicate, replicate]}]
parameters: [{name: '*', storage: [R, R], optimizer_state: [R, R]}]
"""
REFUSED = 2
NOTHING_FITS = 3
LATE = 124
WHY = {REFUSED: "refused by the program", NOTHING_FITS: "where nothing fits in the memory",
       LATE: "that ran out of time"}


def explain(options, deck, cluster, *more):
    """Returns the JSON of `hidup explain`, or the exit code, or LATE if it took too long."""
    words = [options.binary, "explain", deck, "--cluster", cluster, "--json", *more]
    try:
        result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False,
                                timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return LATE
    if result.returncode not in {0, *WHY}:
        raise RuntimeError(result.stderr)
    return json.loads(result.stdout) if result.returncode == 0 else result.returncode


class Comparison:
    """The results of all pairs."""

    def __init__(self):
        self.compared = []  # (difference, name of the cell)
        self.candidates = []
        self.without = collections.defaultdict(list)  # exit code: cells
        self.one_sided = []  # cells that only one order has
        self.too_large = 0  # number of compared cells above the limit

    def add(self, cell, shipped, swapped):
        """Adds a cell and returns the difference; None where there is none."""
        codes = [code for code in (shipped, swapped) if isinstance(code, int)]
        if codes:
            (self.without[codes[0]] if codes == [codes[0]] * 2 else self.one_sided).append(cell)
            return None
        times = [plan["predicted_iteration_s"] for plan in (shipped, swapped)]
        self.compared.append((abs(times[1] / times[0] - 1.0), cell))
        return self.compared[-1][0]

    def add_candidates(self, cell, shipped, swapped):
        ours, theirs = shipped["candidates"], swapped["candidates"]
        for name in ours.keys() & theirs.keys():
            one, other = ours[name], theirs[name]
            if one["microbatches"] == other["microbatches"] and one["predicted_iteration_s"] > 0:
                ratio = other["predicted_iteration_s"] / one["predicted_iteration_s"]
                self.candidates.append((abs(ratio - 1.0), f"{cell}: {name}"))
        self.one_sided += [f"{cell}: {name}, a candidate" for name in ours.keys() ^ theirs.keys()]

    def print(self):
        print()
        for what, found in (("predicted steps", self.compared), ("candidates", self.candidates)):
            if found:
                much = sum(difference > MUCH for difference, _ in found)
                print(f"{len(found)} pairs of {what}: {much} differ by more than {MUCH:.0%}, the "
                      f"worst by {shown(found)}")
        print(f"{self.too_large} pairs of predicted steps need more memory than the deck has")
        for code, cells in sorted(self.without.items()):
            number = len(cells)
            if code == REFUSED:
                counts = collections.Counter(cell.split()[-1] for cell in cells)
                cells = [f"{name} {count} times" for name, count in counts.items()]
            print(f"{number} pairs {WHY[code]}: {'; '.join(cells)}")
        print(f"{len(self.one_sided)} in one order only", *self.one_sided, sep="; ")


def shown(found):
    worst, name = max(found)
    return f"{100 * worst:.2g} % ({name})" if worst > 0.0 else "0 %"


def compare(options, folder, model, cluster, found):
    """Returns the line of one model on one cluster."""
    deck = yaml.safe_load(cluster.read_text(encoding="utf-8"))
    axes = [axis["name"] for axis in deck["cluster"]["mesh"]]
    memory = int(deck["cluster"]["device"]["memory"].removesuffix("GiB")) * 2**30
    deck["cluster"]["mesh"].reverse()
    swapped = folder / "swapped.yaml"
    swapped.write_text(yaml.safe_dump(deck, sort_keys=False), encoding="utf-8")
    data = ["--set", f"data.path={folder}/my.bin"] if "finetune" in model.stem else []
    named = ["--hints", folder / "hints.yaml", "--set", "train.microbatches=1",
             "--set", "cluster.device.memory=auto"]

    label, seen = f"{model.relative_to(INPUTS / 'models').with_suffix('')} {cluster.stem}", []
    combined = [f"{axes[0]}={one},{axes[1]}={other}" for one, other in PAIRS]
    for name in [*NAMES, *combined, "search"]:
        more = [*data, "--strategy", name, *(named if name != "search" else [])]
        plans = [explain(options, model, file, *more) for file in (cluster, swapped)]
        difference = found.add(f"{label} {name}", *plans)
        if difference is None:
            continue
        seen.append((difference, name))
        found.too_large += plans[0]["predicted_peak_bytes"] > memory
        if name == "search":
            found.add_candidates(label, *plans)
    if not seen:
        return f"{label}: nothing to compare"
    return f"{label}: {len(seen)} compared, the largest difference {shown(seen)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=pathlib.Path, default=SOURCE / "build" / "hidup")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds of a call")
    options = parser.parse_args()
    models = [*sorted((INPUTS / "models").glob("*.yaml")),
              *sorted((INPUTS / "models" / "paper").glob("*.yaml"))]
    clusters = [file for file in sorted((INPUTS / "clusters").glob("*.yaml"))
                if len(yaml.safe_load(file.read_text(encoding="utf-8"))["cluster"]["mesh"]) == 2]
    found = Comparison()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "hints.yaml").write_text(HINTS, encoding="utf-8")
        # Tokens for the deck whose data file is not shipped.
        header = numpy.zeros(256, numpy.int32)
        header[:3] = 20240520, 1, 1000000
        (folder / "my.bin").write_bytes(header.tobytes() + bytes(2 * int(header[2])))
        for model in models:
            for cluster in clusters:
                if options.only.search(f"{model.stem} {cluster.stem}"):
                    print(compare(options, folder, model, cluster, found), flush=True)
    found.print()


if __name__ == "__main__":
    main()
