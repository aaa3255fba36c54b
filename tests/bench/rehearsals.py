#!/usr/bin/env python3
"""The searched plan against others, in emulated steps of 8 CPU ranks as node 2 x gpu 4 (cluster.emulate,
by jobs/rehearse.sh). Each of 12 cells (bert and bert-sgmoe at small size, three bandwidths of the
nodes' links, two batch sizes) has the searched plan, the eight strategies named per axis that are
fastest by simulation, dp, and four plans of random rules. Prints a row per cell (Markdown), and at the
end the number of cells in which the searched plan is the fastest or within 3 % of it. Asserts nothing.
A quarter of an hour on two cores without other work.

    python3 tests/bench/rehearsals.py [--only REGEX]

HIDUP: the program, as for jobs/rehearse.sh.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import tempfile

from places import SOURCE

HIDUP = os.environ.get("HIDUP", SOURCE / "build" / "hidup")
CLUSTER = SOURCE / "inputs" / "clusters" / "v100-2x4-100gbps.yaml"
RANKS = 8
# Devices are slow, so that a step of a small model is more than latencies.
SIZES = ["model.layers=4", "model.hidden=64", "model.heads=4", "model.ffn=256", "model.sequence=32",
         "cluster.device.flops=500GFLOPS", "cluster.mesh.node.size=2", "cluster.mesh.node.shared=1",
         "cluster.mesh.node.latency=10us", "cluster.mesh.gpu.size=4",
         "cluster.mesh.gpu.bandwidth=10GB/s", "cluster.mesh.gpu.latency=5us"]
MODELS = {"bert": [], "bert-sgmoe": ["model.moe.experts=16"]}
BANDWIDTHS = ["10GB/s", "2GB/s", "400MB/s"]
BATCHES = [8, 64]
NEAR = 1.03
COMBINATIONS, RANDOM_PLANS = 8, 4


def hidup(*words):
    return subprocess.run(list(map(str, [HIDUP, *words])), check=True, capture_output=True,
                          text=True).stdout


class Cell:
    def __init__(self, model, bandwidth, batch, folder):
        self.deck = SOURCE / "inputs" / "models" / f"{model}.yaml"
        self.settings = [*SIZES, *MODELS[model], f"cluster.mesh.node.bandwidth={bandwidth}",
                         f"train.batch={batch}", "model.vocab=256"]
        self.folder = folder

    def sets(self, leave_out=" "):
        return [word for setting in self.settings if not setting.startswith(leave_out)
                for word in ("--set", setting)]

    def search(self, name, *more):
        """Returns the file of the plan, and the JSON of the search."""
        file = self.folder / f"{name}.yaml"
        text = hidup("search", self.deck, "--cluster", CLUSTER, "--json", "--strategy-out", file,
                     "--overwrite", *self.sets(), *more)
        return str(file), json.loads(text)

    def random_plan(self, seed):
        """Returns a plan of random rules; the search chooses the rest."""
        choose = random.Random(seed)
        text = hidup("graph", self.deck, *self.sets("cluster."))
        operations = []
        for name, rules in re.findall(r"^(\S+) = .*\n((?:#   .*\n?)+)", text, re.M):
            legal = re.findall(r"^#   (\S+)", rules, re.M)
            operations.append({"op": name, "rule": [choose.choice(legal) for _ in range(2)]})
        hints = self.folder / "hints.yaml"
        hints.write_text(json.dumps({"operations": operations}), encoding="utf-8")
        return self.search(f"random{seed}", "--level", "fast", "--hints", hints)[0]

    def strategies(self):
        """Returns {label: (name or file, more settings)}."""
        file, found = self.search("searched", "--baselines")
        names = sorted((plan["predicted_iteration_s"], name, plan["microbatches"])
                       for name, plan in found["baselines"].items()
                       if name != "search" and plan["feasible"])
        all_of_them = {"searched": (file, [])}
        for _, name, microbatches in names[:COMBINATIONS]:
            all_of_them[name] = (name, [f"train.microbatches={microbatches}"])
        all_of_them.setdefault("dp", ("dp", []))
        for seed in range(RANDOM_PLANS):
            all_of_them[f"random {seed}"] = (self.random_plan(seed), [])
        return all_of_them

    def emulated_ms(self, strategy, more):
        result = subprocess.run(
            [SOURCE / "jobs" / "rehearse.sh", self.deck, CLUSTER, str(RANKS), *self.settings, *more],
            env={**os.environ, "STRATEGY": strategy, "STEPS": "3"}, capture_output=True, text=True,
            check=False)
        if result.returncode != 0:
            raise RuntimeError(result.stderr)
        return float(re.search(r"^emulated +([\d.]+)", result.stdout, re.M).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX",
                        help="of the cells, those of which it finds \"MODEL LINK BATCH\"")
    options = parser.parse_args()
    print("| model | node's link | batch | searched | fastest other | ratio | dp | random plans |\n"
          "|---|---|---|---|---|---|---|---|")
    ratios = []
    for cell in itertools.product(MODELS, BANDWIDTHS, BATCHES):
        if not options.only.search(" ".join(map(str, cell))):
            continue
        with tempfile.TemporaryDirectory() as folder:
            place = Cell(*cell, pathlib.Path(folder))
            times = {name: place.emulated_ms(*how) for name, how in place.strategies().items()}
        searched = times.pop("searched")
        fastest = min(times, key=times.get)
        ratios.append(searched / times[fastest])
        randoms = [times[f"random {seed}"] for seed in range(RANDOM_PLANS)]
        print(f"| {' | '.join(map(str, cell))} | {searched:.3f} ms | {fastest}, "
              f"{times[fastest]:.3f} ms | {ratios[-1]:.3f} | {times['dp']:.3f} ms "
              f"| {min(randoms):.3f} to {max(randoms):.3f} ms |", flush=True)
    print(f"\n{len(ratios)} cells; the searched plan is the fastest or within 3 % of it in "
          f"{sum(ratio <= NEAR for ratio in ratios)}")


if __name__ == "__main__":
    main()
