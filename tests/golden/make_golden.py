#!/usr/bin/env python3
"""Computes the golden values that hidup is compared with, independently of its code.

    make_golden.py DECK.yaml GOLDEN.json

The models are written with PyTorch in float64 (models.py); parameters, dropout masks, tokens and
images (images.py) come from Philox in numpy (philox.py). Needs Debian's python3-torch (1.13) and
python3-yaml; run it only after a change of a model's definition.

GOLDEN.json: losses and norms of the gradient (before clipping) of every step, and the gradients
of step 1 (before clipping) by parameter, {"shape": [...], "values": [row-major]}. Models of images
also have the accuracy of every step. Models with experts also have the numbers of tokens that chose
each expert and of those that were dropped, [steps, layers with experts, experts], and every step's
router losses that have a weight; the gradients are of all losses, the loss is without them.
"""

import json
import sys

import numpy as np
import torch
import yaml

import images
from models import FAMILIES
from philox import SHIFT, check_generator, words


ROUTER_LOSSES = {"balance_loss", "z_loss"}


def synthetic_batch(deck, step):
    """Returns tokens and targets, [batch, sequence] each, of a step counted from 1."""
    batch, sequence = deck["train"]["batch"], deck["model"]["sequence"]
    rows = [
        words(deck["train"]["seed"], "data/synthetic", (step - 1) * batch + i, sequence + 1)
        for i in range(batch)
    ]
    tokens = (np.stack(rows) * np.uint64(deck["model"]["vocab"])) >> SHIFT
    tokens = torch.tensor(tokens.astype(np.int64))
    return tokens[:, :-1], tokens[:, 1:]


def synthetic_images(deck, step):
    """Returns patches [batch, patches, values] and targets [batch] of a step counted from 1."""
    batch, seed = deck["train"]["batch"], deck["train"]["seed"]
    assert step * batch <= images.SYNTHETIC, "the first epoch only"
    records = np.stack([
        images.synthetic_record(seed, images.shuffled(seed, 0, images.SYNTHETIC, sample))
        for sample in range((step - 1) * batch, step * batch)
    ])
    return (torch.tensor(images.patches(records)),
            torch.tensor(records[:, 0].astype(np.int64)))


def make_optimizer(parameters, train):
    """Returns AdamW; weight decay acts on matrices only, not on biases and norms."""
    decays = [n for n in parameters if n.endswith(".weight") and "norm" not in n]
    groups = [
        {"params": [parameters[n] for n in decays], "weight_decay": train["weight_decay"]},
        {"params": [parameters[n] for n in parameters if n not in decays], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=train["lr"], betas=(0.9, 0.999), eps=1e-8)


def run(deck, dtype=torch.float64):
    """Trains and returns the golden values."""
    train = deck["train"]
    of_images = deck["data"]["kind"] == "images"
    assert of_images or deck["data"]["kind"] == "synthetic"
    if of_images:
        deck["model"].update(sequence=images.PATCHES + 1, vocab=images.CLASSES)
    batch_of = synthetic_images if of_images else synthetic_batch
    assert train["optimizer"] == "adamw" and train["schedule"] == "constant"
    has_experts = "moe" in deck["model"]
    kind = FAMILIES[deck["model"]["family"]][has_experts]
    model = kind(deck["model"], train["seed"], dtype)
    optimizer = make_optimizer(model.parameters, train)
    golden = {"loss": [], "grad_norm": [], "gradients": {}}
    if of_images:
        golden["accuracy"] = []
    if has_experts:
        golden["experts"] = {"tokens": [], "dropped": []}
        golden |= {name: [] for name in model.weights}
    for step in range(1, train["steps"] + 1):
        optimizer.zero_grad()
        loss = model.loss(*batch_of(deck, step), step)
        (loss + (model.auxiliary if has_experts else 0.0)).backward()
        if step == 1:
            golden["gradients"] = {n: p.grad.clone() for n, p in model.parameters.items()}
        norm = torch.nn.utils.clip_grad_norm_(model.parameters.values(), train["clip_norm"])
        optimizer.step()
        if has_experts:
            model.after_step()
        golden["loss"].append(loss.item())
        golden["grad_norm"].append(norm.item())
        if of_images:
            golden["accuracy"].append(model.right)
        if has_experts:
            for at, name in enumerate(golden["experts"]):
                golden["experts"][name].append([load[at].tolist() for load in model.loads])
            for name, value in model.router_losses.items():
                golden[name].append(value)
    return golden


def write(golden, name):
    """Writes one line per parameter, so that diffs are readable."""
    def numbers(values):
        return "[" + ", ".join(f"{value:.12g}" for value in values) + "]"

    gradients = [
        f'    {json.dumps(name)}: {{"shape": {json.dumps(list(gradient.shape))}, '
        f'"values": {numbers(gradient.flatten().tolist())}}}'
        for name, gradient in golden["gradients"].items()
    ]
    with open(name, "w", encoding="utf-8") as file:
        file.write('{\n')
        file.write(f'  "loss": {numbers(golden["loss"])},\n')
        file.write(f'  "grad_norm": {numbers(golden["grad_norm"])},\n')
        if "accuracy" in golden:
            file.write(f'  "accuracy": {numbers(golden["accuracy"])},\n')
        for name in sorted(ROUTER_LOSSES & golden.keys()):
            file.write(f'  "{name}": {numbers(golden[name])},\n')
        if "experts" in golden:
            file.write(f'  "experts": {json.dumps(golden["experts"])},\n')
        file.write('  "gradients": {\n' + ",\n".join(gradients) + '\n  }\n}\n')


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: make_golden.py DECK.yaml GOLDEN.json")
    check_generator()
    with open(sys.argv[1], encoding="utf-8") as file:
        deck = yaml.safe_load(file)
    torch.set_num_threads(1)
    write(run(deck), sys.argv[2])


if __name__ == "__main__":
    main()
