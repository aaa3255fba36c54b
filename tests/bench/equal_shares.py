#!/usr/bin/env python3
"""60 emulated cells (speeds of devices x models x bandwidths): a step of the searched plan, whose parts may be
unequal, over a step of the fastest plan with equal parts. That is the fastest of three, emulated on the same
unequal devices: what the search finds for devices that are all as the slowest one, and all as their mean, and
dp-ev. Prints the ratios, the worst cell, and cells over 1.03. Emulated times are exact, so other work on the
machine changes nothing. Asserts nothing. Four minutes on two cores.

    python3 tests/bench/equal_shares.py [--only bert-sgmoe-1:0.5]
"""

import argparse
import itertools
import pathlib
import statistics
import subprocess
import tempfile

import h5py

from places import SOURCE, settings

SPEEDS = {"1:0.9": [1, 0.9], "1:0.5": [1, 0.5], "1:0.5:0.25": [1, 0.5, 0.25], "1:1:0.5:0.5": [1, 1, 0.5, 0.5],
          "1:1:1:0.7": [1, 1, 1, 0.7]}
TEXT = {"model.sequence": 32, "model.vocab": 500}
MODELS = {"bert": TEXT, "bert-sgmoe": {**TEXT, "model.moe.experts": 12}, "vit": {}, "gpt2-124m": TEXT}
BANDWIDTHS = ["4GB/s", "400MB/s", "40MB/s"]
SIZES = {"model.layers": 2, "model.hidden": 64, "model.heads": 4, "model.ffn": 256, "data.validation": "none",
         "train.batch": 84, "train.steps": 3, "train.warmup_steps": 0, "train.validate_every": 0,
         "cluster.profile": "none", "cluster.device.threads": 1}
LIMIT = 1.03


def command(words):
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}\n{result.stderr}")


class Cell:
    """A model on emulated devices of some speeds, and links of some bandwidth."""

    def __init__(self, folder, model, speeds, bandwidth):
        self.folder, self.speeds = folder, SPEEDS[speeds]
        self.decks = [SOURCE / "inputs/models" / f"{model}.yaml", "--cluster", SOURCE / "inputs/clusters/laptop.yaml"]
        self.keys = {**SIZES, **MODELS[model], "cluster.mesh.ranks.bandwidth": bandwidth}

    def devices(self, speeds):
        return {"cluster.devices": "[" + ", ".join(
            f"{{flops: {100 * speed}GFLOPS, memory_bandwidth: {10 * speed}GB/s}}" for speed in speeds) + "]"}

    def searched(self, speeds):
        """Returns the file of the strategy that the search finds for devices of these speeds."""
        file = pathlib.Path(self.folder, "strategy.yaml")
        command([SOURCE / "build/hidup", "search", *self.decks, "--ranks", len(speeds), "--level", "fast",
                 "--time-limit", 60, "--strategy-out", file, "--overwrite",
                 *settings({**self.keys, **self.devices(speeds)})])
        return file

    def step(self, strategy, microbatches):
        """Returns the emulated seconds of a step, and the shares of the plan."""
        out = pathlib.Path(self.folder, "run.h5")
        script = f'source {SOURCE}/jobs/environment.sh && exec "$@"'
        command(["bash", "-c", script, "bash", "mpirun", "-n", len(self.speeds), SOURCE / "build/hidup", "train",
                 *self.decks, "--strategy", strategy, "--out", out, "--overwrite",
                 *settings({**self.keys, **self.devices(self.speeds), "cluster.emulate": "on", **microbatches})])
        with h5py.File(out) as timings:
            text = timings["strategy/text"].asstr()[()]
            shares = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("shares")]
            return timings["iterations/wall_s"][1:].mean(), shares[0] if shares else "equal"

    def equal(self):
        """Returns {plan: seconds} of plans with equal parts."""
        slowest = [min(self.speeds)] * len(self.speeds)
        mean = [statistics.mean(self.speeds)] * len(self.speeds)
        return {"for the slowest": self.step(self.searched(slowest), {})[0],
                "for the mean": self.step(self.searched(mean), {})[0],
                "dp-ev": self.step("dp-ev", {"train.microbatches": 1})[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cells whose name begins so: MODEL-SPEEDS-BANDWIDTH")
    only = parser.parse_args().only
    ratios = {}
    with tempfile.TemporaryDirectory() as folder:
        for model, speeds, bandwidth in itertools.product(MODELS, SPEEDS, BANDWIDTHS):
            name = f"{model}-{speeds}-{bandwidth}"
            if not name.startswith(only):
                continue
            cell = Cell(folder, model, speeds, bandwidth)
            equal = cell.equal()
            best = min(equal, key=equal.get)
            found, shares = cell.step(cell.searched(cell.speeds), {})
            ratios[name] = found / equal[best]
            print(f"{name:<32} {1e3 * found:8.3f} ms, equal parts {1e3 * equal[best]:8.3f} ms ({best}): "
                  f"{ratios[name]:.3f}  shares {shares}", flush=True)
    worst = max(ratios, key=ratios.get)
    slower = [name for name in ratios if ratios[name] > LIMIT]
    print(f"{len(ratios)} cells: median {statistics.median(ratios.values()):.3f}, best {min(ratios.values()):.3f}, "
          f"worst {ratios[worst]:.4f} ({worst}); over {LIMIT}: {len(slower)} {', '.join(slower)}")


if __name__ == "__main__":
    main()
