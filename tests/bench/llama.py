#!/usr/bin/env python3
"""A training step of llama-tiny on the CPU: hidup's beside that of transformers' LlamaForCausalLM.

One process with all cores, fp32, AdamW, clipping; random tokens. Both sides take turns, three times
each; medians of all steps after the first ones, and their ratio. Needs PyTorch, transformers, h5py and
PyYAML. A minute.

    python3 tests/bench/llama.py [--hidup build/hidup] [--batch 16]
"""

import argparse
import os
import pathlib
import subprocess
import tempfile
import time

import h5py
import numpy
import torch
import transformers
import yaml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DECK = SOURCE / "inputs" / "models" / "llama-tiny.yaml"
VOCAB = 256
ROUNDS, STEPS, WARMUP = 3, 100, 20


def make_network(model):
    torch.manual_seed(1)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=model["hidden"], intermediate_size=model["ffn"],
        num_hidden_layers=model["layers"], num_attention_heads=model["heads"],
        num_key_value_heads=model["kv_heads"], max_position_embeddings=model["sequence"]))


def run_torch(deck, batch):
    """Returns the seconds of the steps."""
    model, train = deck["model"], deck["train"]
    network = make_network(model)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True,
                                  weight_decay=train["weight_decay"])
    tokens = torch.randint(VOCAB, (batch, model["sequence"] + 1))
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        logits = network(tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), train["clip_norm"])
        optimizer.step()
        loss.item()
        times.append(time.perf_counter() - start)
    return times[WARMUP:]


def run_hidup(program, batch, folder):
    """Returns the seconds of the steps."""
    settings = {"data.kind": "synthetic", "data.path": "[]", "data.validation": "none",
                "model.vocab": VOCAB, "train.batch": batch, "train.steps": STEPS,
                "train.validate_every": 0, "train.lr": 1e-4, "cluster.profile": "none"}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    out = folder / "run.h5"
    script = 'source "$0" && exec mpirun -n 1 "$@"'
    subprocess.run(["bash", "-c", script, str(SOURCE / "jobs" / "environment.sh"), str(program),
                    "train", str(DECK), "--cluster", str(SOURCE / "inputs/clusters/laptop.yaml"),
                    "--strategy", "dp", "--out", str(out), "--overwrite", *words],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with h5py.File(out) as file:
        return list(file["iterations/wall_s"][WARMUP:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidup", type=pathlib.Path, default=SOURCE / "build" / "hidup")
    parser.add_argument("--batch", type=int, default=16)
    options = parser.parse_args()
    deck = yaml.safe_load(DECK.read_text())
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.set_flush_denormal(True)
    theirs, ours = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            theirs += run_torch(deck, options.batch)
            ours += run_hidup(options.hidup.resolve(), options.batch, pathlib.Path(folder))
    theirs, ours = numpy.median(theirs), numpy.median(ours)
    print(f"llama-tiny, batch {options.batch}, {torch.get_num_threads()} threads: PyTorch "
          f"{torch.__version__} {theirs * 1e3:.2f} ms, hidup {ours * 1e3:.2f} ms a step: "
          f"{theirs / ours:.2f} times as fast")


if __name__ == "__main__":
    main()
