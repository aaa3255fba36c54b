"""Compares hidup with transformers: models that are imported, trained and exported.

For the decks of theirs.py, with random weights: save_pretrained() writes a model, hidup trains it
from there (--init) under several strategies and ranks, and exports it; from_pretrained() reads the
export. Prints relative differences from PyTorch in double precision: of the first loss; the largest of
all steps' losses; of the next step's loss, by hidup and by the exported model; and of the exported
model's logits, over the largest logit. Adam makes the last one large: it divides gradients that are
nearly 0 by their size. Exits with 1 where a difference is above its limit. Needs PyTorch,
transformers, h5py and PyYAML, and some minutes; downloads nothing.

    python3 tests/interchange/check_transformers.py [--binary build/hidup]
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy
import torch

from theirs import HERE, MODELS, loss_of, make, pretrained, read_deck, synthetic_batch, train

ROOT = HERE.parents[1]
RUNS = [(1, "dp"), (2, "dp"), (3, "fsdp"), (4, "fsdp"), (2, "megatron"), (3, "megatron-sp"),
        (4, "search"), (3, "search")]
LIMITS = numpy.array([1e-5, 1e-4, 1e-5, 1e-4])


def hidup(binary, ranks, *words):
    command = ["mpirun", "-n", str(ranks), str(binary), *map(str, words)]
    script = 'source "$0" && exec "$@"'
    result = subprocess.run(["bash", "-c", script, str(ROOT / "jobs" / "environment.sh"), *command],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(result.stderr)


def measure(binary, folder, name, theirs, ranks, strategy):
    """Returns the four differences of one run."""
    deck = read_deck(name)
    steps = deck["train"]["steps"]
    out, exported = folder / "run.h5", folder / "exported"
    hidup(binary, ranks, "train", HERE / f"{name}.yaml", "--cluster",
          ROOT / "inputs/clusters/laptop.yaml", "--init", folder / "theirs", "--strategy", strategy,
          "--set", f"train.steps={steps + 1}", "--set", f"train.checkpoint.every_steps={steps}",
          "--out", out, "--overwrite")
    hidup(binary, ranks, "export", folder / f"run.ckpt/step-{steps:08}.ckpt.h5", "--out", exported,
          "--overwrite")
    with h5py.File(out) as file:
        losses = file["iterations/loss"][:]
    away = numpy.abs(losses[:steps] / theirs["losses"] - 1)
    model = pretrained(exported)
    with torch.no_grad():
        next_loss = loss_of(model, *synthetic_batch(deck, steps + 1)).item()
        logits = numpy.asarray(model(theirs["tokens"]).logits)
    return numpy.array([away[0], away.max(), abs(losses[steps] / next_loss - 1),
                        numpy.abs(logits - theirs["logits"]).max() / numpy.abs(logits).max()])


def check(binary, folder, name):
    deck = read_deck(name)
    model = make(name, deck)
    model.save_pretrained(folder / "theirs")
    tokens = synthetic_batch(deck, 1)[0]
    theirs = {"losses": numpy.array(train(model, deck)), "tokens": tokens}
    with torch.no_grad():
        theirs["logits"] = numpy.asarray(model.eval()(tokens).logits)
    good = True
    for ranks, strategy in RUNS:
        found = measure(binary, folder, name, theirs, ranks, strategy)
        good = good and bool((found <= LIMITS).all())
        print(f"{name:6} {strategy:12} {ranks} rank(s)  " + "  ".join(f"{x:.1e}" for x in found),
              flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build" / "hidup")
    binary = parser.parse_args().binary.resolve()
    print("differences: first loss, all losses, next loss by the exported model, logits")
    good = True
    for name in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            good = check(binary, pathlib.Path(folder), name) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
