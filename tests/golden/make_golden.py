#!/usr/bin/env python3
"""Computes the golden values that hidup is compared with, independently of its code.

    make_golden.py DECK.yaml GOLDEN.json

The model is written with PyTorch in float64; parameters, dropout masks and tokens come from
Philox in numpy, as src/core/random.h defines it. Needs Debian's python3-torch (1.13) and
python3-yaml; only whoever changes the model's definition has to run it.

GOLDEN.json: losses and norms of the gradient (before clipping) of every step, and the gradients
of step 1 (before clipping) by parameter, {"shape": [...], "values": [row-major]}. With experts
also how many tokens chose each of them and how many of these were dropped, [steps, layers with
experts, experts].
"""

import json
import math
import sys

import numpy as np
import torch
import yaml
from torch.nn import functional as F

U32 = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)


def philox(counter_low, counter_high, key):
    """Philox4x32-10 of 64-bit counter halves: words as uint64 [..., 4]."""
    low, high, key = (np.asarray(x, dtype=np.uint64) for x in (counter_low, counter_high, key))
    c0, c1, c2, c3 = low & U32, low >> SHIFT, high & U32, high >> SHIFT
    k0, k1 = key & U32, key >> SHIFT
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c0
        p1 = np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> SHIFT) ^ c1 ^ k0, p1 & U32, (p0 >> SHIFT) ^ c3 ^ k1, p0 & U32
        k0 = (k0 + np.uint64(0x9E3779B9)) & U32
        k1 = (k1 + np.uint64(0xBB67AE85)) & U32
    return np.stack(np.broadcast_arrays(c0, c1, c2, c3), axis=-1)


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def words(seed, purpose, step, count):
    """The first `count` words of random_stream(seed, purpose, step)."""
    mixed = philox(fnv1a(purpose), 0, seed)
    key = (mixed[1] << SHIFT) | mixed[0]
    return philox(np.arange((count + 3) // 4), step, key).reshape(-1)[:count]


def uniform(seed, purpose, step, shape):
    """float32 in [0, 1) by global row-major index."""
    top = words(seed, purpose, step, math.prod(shape)) >> np.uint64(8)
    return top.astype(np.float32).reshape(shape) * np.float32(2.0**-24)


def check_generator():
    """Known answers: Random123's kat_vectors for philox4x32-10, and FNV-1a's own."""
    answers = [
        ((0, 0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((2**64 - 1, 2**64 - 1, 2**64 - 1), "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ((0x85A308D3_243F6A88, 0x03707344_13198A2E, 0x299F31D0_A4093822),
         "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ]
    for arguments, expected in answers:
        found = " ".join(f"{int(word):08x}" for word in philox(*arguments))
        assert found == expected, f"philox{arguments}: {found}, expected {expected}"
    assert fnv1a("a") == 0xAF63DC4C8601EC8C


class Dense:
    """A post-norm transformer with causal attention; `parameters` by name.

    create_feed_forward() and feed_forward() are the half of a block that comes after attention.
    """

    def __init__(self, model, seed, dtype):
        self.model, self.seed, self.dtype = model, seed, dtype
        self.head = model["hidden"] // model["heads"]
        self.parameters = {}
        self.create_parameters()

    def create(self, name, shape, bound=None, value=0.0):
        """Uniform in [-bound, bound) in float32, or constant."""
        if bound is None:
            data = np.full(shape, value, dtype=np.float32)
        else:
            u = uniform(self.seed, "init/" + name, 0, shape)
            data = np.float32(bound) * (np.float32(2) * u - np.float32(1))
        self.parameters[name] = torch.tensor(data, dtype=self.dtype, requires_grad=True)

    def create_parameters(self):
        hidden, heads, vocab = (self.model[k] for k in ("hidden", "heads", "vocab"))
        head = self.head
        self.create("embedding.weight", (vocab, hidden), 0.1)
        for layer in range(self.model["layers"]):
            at = f"layers.{layer}."
            xavier = math.sqrt(6 / (hidden + 3 * hidden))
            self.create(at + "attention.qkv.weight", (hidden, 3, heads, head), xavier)
            self.create(at + "attention.qkv.bias", (3, heads, head))
            self.create(at + "attention.out.weight", (heads, head, hidden), 1 / math.sqrt(hidden))
            self.create(at + "attention.out.bias", (hidden,))
            self.create(at + "norm1.weight", (hidden,), value=1.0)
            self.create(at + "norm1.bias", (hidden,))
            self.create_feed_forward(layer)
            self.create(at + "norm2.weight", (hidden,), value=1.0)
            self.create(at + "norm2.bias", (hidden,))
        self.create("head.weight", (hidden, vocab), 0.1)
        self.create("head.bias", (vocab,))

    def create_feed_forward(self, layer):
        hidden, ffn, at = self.model["hidden"], self.model["ffn"], f"layers.{layer}.ffn."
        self.create(at + "up.weight", (hidden, ffn), 1 / math.sqrt(hidden))
        self.create(at + "up.bias", (ffn,), 1 / math.sqrt(hidden))
        self.create(at + "down.weight", (ffn, hidden), 1 / math.sqrt(ffn))
        self.create(at + "down.bias", (hidden,), 1 / math.sqrt(ffn))

    def loss(self, tokens, targets, step):
        hidden, p = self.model["hidden"], self.parameters
        h = p["embedding.weight"][tokens] * math.sqrt(hidden) + self.positions(tokens.shape[1])
        h = self.dropout("embedding.dropout", h, step)
        for layer in range(self.model["layers"]):
            at = f"layers.{layer}."
            out = self.attention(at + "attention.", h)
            h = self.norm(at + "norm1", h + self.dropout(at + "attention.dropout", out, step))
            h = self.norm(at + "norm2", h + self.feed_forward(layer, h, step))
        logits = h @ p["head.weight"] + p["head.bias"]
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def feed_forward(self, layer, h, step):
        p, at = self.parameters, f"layers.{layer}.ffn."
        up = F.relu(h @ p[at + "up.weight"] + p[at + "up.bias"])
        up = self.dropout(at + "activation_dropout", up, step)
        down = up @ p[at + "down.weight"] + p[at + "down.bias"]
        return self.dropout(at + "dropout", down, step)

    def positions(self, sequence):
        """Sinusoids (Vaswani et al. 2017, section 3.5)."""
        hidden = self.model["hidden"]
        table = torch.zeros(sequence, hidden, dtype=torch.float64)
        position = torch.arange(sequence, dtype=torch.float64)
        for even in range(0, hidden, 2):
            angle = position / 10000 ** (even / hidden)
            table[:, even] = torch.sin(angle)
            table[:, even + 1] = torch.cos(angle)
        return table.to(self.dtype)

    def attention(self, at, h):
        p, sequence = self.parameters, h.shape[1]
        qkv = torch.einsum("bsk,ktnd->tbnsd", h, p[at + "qkv.weight"])
        q, k, v = qkv + p[at + "qkv.bias"][:, None, :, None, :]
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.head)
        future = torch.ones(sequence, sequence, dtype=torch.bool).triu(1)
        y = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        return torch.einsum("bnsd,ndh->bsh", y, p[at + "out.weight"]) + p[at + "out.bias"]

    def norm(self, at, h):
        weight, bias = self.parameters[at + ".weight"], self.parameters[at + ".bias"]
        return F.layer_norm(h, (self.model["hidden"],), weight, bias, eps=1e-5)

    def dropout(self, name, h, step):
        rate = self.model["dropout"]
        keep = uniform(self.seed, "dropout/" + name, step, tuple(h.shape)) >= rate
        return h * torch.tensor(keep, dtype=self.dtype) / (1 - rate)


class Moe(Dense):
    """Every so many blocks have experts: GShard (Lepikhin et al. 2020) with the router top2,
    Switch (Fedus et al. 2021) with top1, both without auxiliary loss."""

    # Logits that differ by less could be ordered otherwise in float32: the golden values of such
    # a deck would depend on rounding.
    MARGIN = 1e-3

    def __init__(self, model, seed, dtype):
        moe = model["moe"]
        self.experts, self.every = moe["experts"], moe["every"]
        self.choices = {"top1": 1, "top2": 2}[moe["router"]]
        slots = math.ceil(moe["capacity_factor"] * self.choices * model["sequence"] / self.experts)
        self.capacity = min(max(slots, 1), model["sequence"])
        self.loads = []  # of the last step, by layer with experts: [2, experts]
        super().__init__(model, seed, dtype)

    def create_feed_forward(self, layer):
        if (layer + 1) % self.every != 0:
            super().create_feed_forward(layer)
            return
        hidden, ffn, experts = self.model["hidden"], self.model["ffn"], self.experts
        at = f"layers.{layer}.moe."
        self.create(at + "router.weight", (hidden, experts), 1 / math.sqrt(hidden))
        self.create(at + "experts.up.weight", (experts, hidden, ffn), 1 / math.sqrt(hidden))
        self.create(at + "experts.up.bias", (experts, ffn), 1 / math.sqrt(hidden))
        self.create(at + "experts.down.weight", (experts, ffn, hidden), 1 / math.sqrt(ffn))
        self.create(at + "experts.down.bias", (experts, hidden), 1 / math.sqrt(ffn))

    def loss(self, tokens, targets, step):
        self.loads = []
        return super().loss(tokens, targets, step)

    def feed_forward(self, layer, h, step):
        if (layer + 1) % self.every != 0:
            return super().feed_forward(layer, h, step)
        p, at = self.parameters, f"layers.{layer}.moe."
        batch, _, hidden = h.shape
        logits = h @ p[at + "router.weight"]
        chosen, slots = self.route(logits.detach())
        gates = logits.softmax(-1).gather(-1, chosen)
        if self.choices == 2:
            gates = gates / gates.sum(-1, keepdim=True)

        # Of every choice that was kept: its sequence, position and number, and its row.
        b, s, c = (slots < self.capacity).nonzero(as_tuple=True)
        row = (b, chosen[b, s, c], slots[b, s, c])
        buffer = torch.zeros(batch, self.experts, self.capacity, hidden, dtype=self.dtype)
        buffer = buffer.index_put(row, h[b, s])
        used = torch.zeros(batch, self.experts, self.capacity, 1, dtype=self.dtype)
        used[row] = 1.0

        up = torch.einsum("bech,ehf->becf", buffer, p[at + "experts.up.weight"])
        up = F.relu((up + p[at + "experts.up.bias"][:, None, :]) * used)
        up = self.dropout(at + "activation_dropout", up, step)
        down = torch.einsum("becf,efh->bech", up, p[at + "experts.down.weight"])
        down = down + p[at + "experts.down.bias"][:, None, :]
        y = torch.zeros_like(h).index_put((b, s), gates[b, s, c][:, None] * down[row],
                                          accumulate=True)
        return self.dropout(at + "dropout", y, step)

    def route(self, logits):
        """The experts that tokens choose and the slots that the choices ask for, both [batch,
        sequence, choices]; a slot beyond the capacity is not had. All first choices of a
        sequence, by position, come before all second choices."""
        values, order = logits.sort(dim=-1, descending=True, stable=True)
        gaps = values[..., :self.choices] - values[..., 1:self.choices + 1]
        assert gaps.min() > self.MARGIN, f"logits {gaps.min():.1e} apart: change the seed"
        chosen = order[..., :self.choices]
        queue = F.one_hot(chosen.transpose(1, 2).flatten(1), self.experts)  # by priority
        places = ((queue.cumsum(1) - 1) * queue).sum(-1)
        slots = places.unflatten(1, (self.choices, -1)).transpose(1, 2)
        dropped = (queue * (places >= self.capacity)[..., None]).sum((0, 1))
        self.loads.append(torch.stack([queue.sum((0, 1)), dropped]))
        return chosen, slots


def synthetic_batch(deck, step):
    """Tokens and targets, [batch, sequence] each, of a step counted from 1."""
    batch, sequence = deck["train"]["batch"], deck["model"]["sequence"]
    rows = [
        words(deck["train"]["seed"], "data/synthetic", (step - 1) * batch + i, sequence + 1)
        for i in range(batch)
    ]
    tokens = (np.stack(rows) * np.uint64(deck["model"]["vocab"])) >> SHIFT
    tokens = torch.tensor(tokens.astype(np.int64))
    return tokens[:, :-1], tokens[:, 1:]


def make_optimizer(parameters, train):
    """AdamW; weight decay acts on matrices only, not on biases and norms."""
    decays = [n for n in parameters if n.endswith(".weight") and ".norm" not in n]
    groups = [
        {"params": [parameters[n] for n in decays], "weight_decay": train["weight_decay"]},
        {"params": [parameters[n] for n in parameters if n not in decays], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=train["lr"], betas=(0.9, 0.999), eps=1e-8)


def run(deck, dtype=torch.float64):
    """Trains and returns the golden values."""
    train = deck["train"]
    assert deck["data"]["kind"] == "synthetic" and deck["model"]["family"] == "bert"
    assert train["optimizer"] == "adamw" and train["schedule"] == "constant"
    kind = Moe if "moe" in deck["model"] else Dense
    model = kind(deck["model"], train["seed"], dtype)
    optimizer = make_optimizer(model.parameters, train)
    golden = {"loss": [], "grad_norm": [], "gradients": {}}
    if kind is Moe:
        golden["experts"] = {"tokens": [], "dropped": []}
    for step in range(1, train["steps"] + 1):
        optimizer.zero_grad()
        loss = model.loss(*synthetic_batch(deck, step), step)
        loss.backward()
        if step == 1:
            golden["gradients"] = {n: p.grad.clone() for n, p in model.parameters.items()}
        norm = torch.nn.utils.clip_grad_norm_(model.parameters.values(), train["clip_norm"])
        optimizer.step()
        golden["loss"].append(loss.item())
        golden["grad_norm"].append(norm.item())
        if kind is Moe:
            for at, name in enumerate(golden["experts"]):
                golden["experts"][name].append([load[at].tolist() for load in model.loads])
    return golden


def write(golden, name):
    """One line per parameter, so that changes can be read."""
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
