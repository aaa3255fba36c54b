#!/usr/bin/env python3
"""Costs of background checkpoints for a training, and the timing file meanwhile: a run of gpt2-124m
(1.5 GB of state) that writes some checkpoints, and a separate reader of its timing file.

The cost of a checkpoint is the time of the steps from its start on beyond the median of the others,
until they are back at it. It is printed as a share of 100 steps. The reader looks ten times a second;
a row's age is the time from the end of its step until the reader sees it. Prints the figures, asserts
nothing. About six minutes and 12 GB of memory on two cores.

    python3 tests/bench/background.py [--ranks 4] [--every 20] [--checkpoints 4] [--folder FOLDER]
"""

import argparse
import pathlib
import subprocess
import tempfile
import time

import h5py
import numpy

SOURCE = pathlib.Path(__file__).resolve().parents[2]
WARMUP = 5  # steps


def start(args, folder):
    deck = folder / "cluster.yaml"
    deck.write_text("cluster: {mesh: [{name: ranks, size: auto}], profile: none}\n")
    steps = args.every * (args.checkpoints + 1) - 1
    script = (f'source "{SOURCE}/jobs/environment.sh" && exec mpirun -n {args.ranks} '
              f'"{SOURCE}/build/hidup" train "{SOURCE}/inputs/models/gpt2-124m.yaml" '
              f'--cluster "{deck}" --strategy {args.strategy} --out "{folder}/run.h5" '
              f'--set data.kind=synthetic --set data.path=[] --set model.vocab=50257 '
              f'--set model.sequence=64 --set train.batch=4 --set train.steps={steps} '
              f'--set train.warmup_steps=1 '
              f'--set train.checkpoint.every_steps={args.every} --set train.checkpoint.keep=1')
    return subprocess.Popen(["bash", "-c", script], stdout=subprocess.DEVNULL)


def watch(process, path):
    """Returns {step: time when the reader first saw its row}, by the wall clock."""
    seen = {}
    while process.poll() is None:
        try:
            with h5py.File(path, "r", swmr=True) as file:
                rows = len(file["iterations/step"])
            now = time.time()
            for step in range(len(seen) + 1, rows + 1):
                seen[step] = now
        except (OSError, KeyError):
            pass
        time.sleep(0.1)
    return seen


def cost(wall, every):
    """Returns each checkpoint's seconds beyond the median step, and the number of affected steps."""
    during = numpy.zeros(len(wall), bool)
    reach = max(2, every // 2)
    starts = range(every - 1, len(wall) - 1, every)
    for first in starts:
        during[first:first + reach] = True
    others = wall[~during][WARMUP:]
    usual = numpy.median(others)
    return usual, [float(numpy.sum(wall[first:first + reach] - usual)) for first in starts]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--every", type=int, default=20, help="steps")
    parser.add_argument("--checkpoints", type=int, default=4)
    parser.add_argument("--strategy", default="dp")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="on the disk to measure")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = pathlib.Path(name)
        process = start(args, folder)
        seen = watch(process, folder / "run.h5")
        if process.returncode != 0:
            raise SystemExit(f"the run ended with code {process.returncode}")
        with h5py.File(folder / "run.h5") as file:
            wall = file["iterations/wall_s"][:]
        size = next((folder / "run.ckpt").iterdir()).stat().st_size
    usual, extra = cost(wall, args.every)
    # The ends of steps, from the row that was seen soonest after its step.
    ended = numpy.cumsum(wall)
    steps = sorted(seen)[:-1]  # the last row comes with the file's end
    ages = numpy.array([seen[step] - ended[step - 1] for step in steps])
    ages -= ages.min()
    print(f"state                {size / 1e9:.2f} GB, {args.ranks} ranks, strategy {args.strategy}")
    print(f"median step          {usual:.3f} s")
    print(f"a checkpoint costs   {numpy.median(extra):.3f} s (median; all: "
          f"{', '.join(f'{value:.2f}' for value in extra)})")
    print(f"share of 100 steps   {100 * numpy.median(extra) / (100 * usual):.2f} %")
    print(f"oldest row           {ages.max():.2f} s more than the youngest (steps: "
          f"{usual:.2f} s)")


if __name__ == "__main__":
    main()
