#!/usr/bin/env python3
"""A training step of PyTorch beside one of hidup, on one device: tokens per second of both.

    python3 tests/bench/peer.py --hidup build-cuda/hidup              # on a GPU
    python3 tests/bench/peer.py --hidup build/hidup --device cpu --small    # that it works

Shapes come from our decks. PyTorch runs as fast as it knows how: bf16 autocast with f32 masters,
torch.compile, fused AdamW, scaled_dot_product_attention; experts by sorting tokens into buffers of
the same capacity as ours, and one batched product. What a PyTorch lacks is left out, and said.
hidup runs the same deck in the same precision where it has it (model.precision), else in f32. Both
take random tokens. Medians over the steps after the first ones. About five minutes on a GPU.
"""

import argparse
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import h5py
    import torch
    import yaml
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(f"peer.py: skipped: {error}")
    sys.exit(77)

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DECKS = {"gpt2-124m": 16, "gpt2-350m": 8, "bert-sgmoe": 64}  # sequences per step on a GPU
SMALL = {"layers": 2, "hidden": 64, "heads": 2, "ffn": 96, "sequence": 32, "vocab": 300}
WARMUP = 5  # steps that do not count


def attention_of(q, k, v):
    """Causal, of [batch, heads, sequence, head]."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(future, -math.inf).softmax(-1) @ v


class Attention(nn.Module):

    def __init__(self, model):
        super().__init__()
        self.heads = model["heads"]
        self.qkv = nn.Linear(model["hidden"], 3 * model["hidden"])
        self.out = nn.Linear(model["hidden"], model["hidden"])

    def forward(self, x):
        batch, sequence, hidden = x.shape
        qkv = self.qkv(x).view(batch, sequence, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        return self.out(attention_of(q, k, v).transpose(1, 2).reshape(batch, sequence, hidden))


class FeedForward(nn.Module):

    def __init__(self, model, gelu):
        super().__init__()
        self.up = nn.Linear(model["hidden"], model["ffn"])
        self.down = nn.Linear(model["ffn"], model["hidden"])
        self.gelu = gelu
        self.dropout = nn.Dropout(0.0 if gelu else model["dropout"])

    def forward(self, x):
        x = self.up(x)
        return self.down(self.dropout(F.gelu(x, approximate="tanh") if self.gelu else F.relu(x)))


class Experts(nn.Module):
    """Two of the experts for each token; a slot less, and it is dropped. Capacity per sequence."""

    def __init__(self, model):
        super().__init__()
        moe, hidden, ffn = model["moe"], model["hidden"], model["ffn"]
        self.experts = moe["experts"]
        self.choices = {"top1": 1, "top2": 2}[moe["router"]]
        slots = math.ceil(moe["capacity_factor"] * self.choices * model["sequence"] / self.experts)
        self.capacity = min(max(slots, 1), model["sequence"])
        self.router = nn.Linear(hidden, self.experts, bias=False)
        self.up = nn.Parameter(torch.randn(self.experts, hidden, ffn) / math.sqrt(hidden))
        self.up_bias = nn.Parameter(torch.zeros(self.experts, 1, ffn))
        self.down = nn.Parameter(torch.randn(self.experts, ffn, hidden) / math.sqrt(ffn))
        self.down_bias = nn.Parameter(torch.zeros(self.experts, 1, hidden))
        self.dropout = nn.Dropout(model["dropout"])

    def forward(self, x):
        batch, sequence, hidden = x.shape
        p = self.router(x).float().softmax(-1)
        weights, chosen = p.topk(self.choices, dim=-1)  # [batch, sequence, choices]
        if self.choices > 1:
            weights = weights / weights.sum(-1, keepdim=True)
        # First choices before second ones: how many before it chose the same expert.
        order = chosen.transpose(1, 2).reshape(batch, -1)  # [batch, choices x sequence]
        one_hot = F.one_hot(order, self.experts)
        slot = (one_hot.cumsum(1) * one_hot).sum(-1) - 1
        kept = slot < self.capacity
        rows = batch * self.capacity  # of an expert
        sequences = torch.arange(batch, device=x.device)[:, None]
        row = (order * batch + sequences) * self.capacity + slot
        row = torch.where(kept, row, torch.full_like(row, self.experts * rows)).flatten()
        tokens = x.to(torch.bfloat16).repeat(1, self.choices, 1).reshape(-1, hidden)
        buffer = x.new_zeros(self.experts * rows + 1, hidden, dtype=tokens.dtype)
        buffer = buffer.index_copy(0, row, tokens)[:-1].view(self.experts, rows, hidden)
        inner = self.dropout(F.relu(buffer @ self.up + self.up_bias))
        out = (inner @ self.down + self.down_bias).reshape(-1, hidden)
        out = torch.cat([out, out.new_zeros(1, hidden)])[row].view(batch, self.choices, sequence, hidden)
        weights = (weights.transpose(1, 2) * kept.view(batch, self.choices, sequence))[..., None]
        return (out * weights.to(out.dtype)).sum(1)


class Block(nn.Module):

    def __init__(self, model, layer, pre_norm):
        super().__init__()
        self.pre_norm = pre_norm
        self.attention = Attention(model)
        moe = model.get("moe")
        experts = moe is not None and (layer + 1) % moe["every"] == 0
        self.second = Experts(model) if experts else FeedForward(model, gelu=pre_norm)
        self.norm1 = nn.LayerNorm(model["hidden"])
        self.norm2 = nn.LayerNorm(model["hidden"])
        self.dropout = nn.Dropout(model["dropout"])

    def forward(self, x):
        if self.pre_norm:
            x = x + self.dropout(self.attention(self.norm1(x)))
            return x + self.dropout(self.second(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x)))
        return self.norm2(x + self.dropout(self.second(x)))


class Transformer(nn.Module):
    """As src/models/transformer.cpp: gpt (GPT-2) or bert."""

    def __init__(self, model):
        super().__init__()
        self.gpt = model["family"] == "gpt"
        hidden, vocab = model["hidden"], model["vocab"]
        self.scale = 1.0 if self.gpt else math.sqrt(hidden)
        self.embedding = nn.Embedding(vocab, hidden)
        nn.init.normal_(self.embedding.weight, std=0.02)
        positions = 0.02 * torch.randn(model["sequence"], hidden)
        self.positions = nn.Parameter(positions, requires_grad=self.gpt)
        self.dropout = nn.Dropout(model["dropout"])
        self.blocks = nn.ModuleList(Block(model, layer, self.gpt)
                                    for layer in range(model["layers"]))
        self.norm = nn.LayerNorm(hidden) if self.gpt else nn.Identity()
        self.head = nn.Linear(hidden, vocab, bias=not self.gpt)
        if self.gpt:
            self.head.weight = self.embedding.weight

    def forward(self, tokens, targets):
        x = self.dropout(self.scale * self.embedding(tokens) + self.positions)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def optimizer_of(network, train, device, missing):
    options = dict(lr=float(train["lr"]), weight_decay=train.get("weight_decay", 0.0))
    kind = torch.optim.AdamW if train.get("optimizer") == "adamw" else torch.optim.Adam
    parameters = [p for p in network.parameters() if p.requires_grad]
    if device == "cuda":
        try:
            return kind(parameters, fused=True, **options)
        except (TypeError, RuntimeError):
            missing.append("fused Adam")
    return kind(parameters, **options)


def run_torch(deck, device, steps):
    """(tokens/s, loss, what this PyTorch lacks)"""
    model, train, missing = deck["model"], deck["train"], []
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    network = Transformer(model).to(device)
    optimizer = optimizer_of(network, train, device, missing)
    if not hasattr(F, "scaled_dot_product_attention"):
        missing.append("scaled_dot_product_attention")
    loss_of = network
    if device == "cuda" and hasattr(torch, "compile"):
        loss_of = torch.compile(network)
    else:
        missing.append("torch.compile")
    shape = (train["batch"], model["sequence"])
    tokens = [torch.randint(model["vocab"], shape, device=device) for _ in range(2)]
    clip = train.get("clip_norm", 0.0)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = loss_of(*tokens)
        loss.backward()
        if clip > 0.0:
            nn.utils.clip_grad_norm_(network.parameters(), clip)
        optimizer.step()
        return loss

    times = []
    for _ in range(steps):
        start = time.perf_counter()
        loss = step().item()  # waits for the device
        times.append(time.perf_counter() - start)
    return math.prod(shape) / statistics.median(times[WARMUP:]), loss, missing


def has_bf16(program):
    keys = subprocess.run([program, "validate", "--keys"], stdout=subprocess.PIPE, text=True)
    return any("model.precision" in line and "bf16" in line for line in keys.stdout.splitlines())


def run_hidup(program, name, settings, device, steps, folder):
    """(tokens/s, loss, precision)"""
    cluster = folder / "cluster.yaml"
    cluster.write_text(f"cluster:\n  device: {{kind: {device}}}\n"
                       "  mesh: [{name: ranks, size: auto}]\n  profile: none\n")
    out = folder / "run.h5"
    settings = {**settings, "data.kind": "synthetic", "train.steps": steps, "train.warmup_steps": 0}
    precision = "f32"
    if has_bf16(program):
        settings["model.precision"] = precision = "bf16"
    command = [program, "train", SOURCE / "inputs" / "models" / f"{name}.yaml", "--cluster", cluster,
               "--strategy", "dp", "--out", out, "--overwrite"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    script = 'source "$0" && exec mpirun -n 1 "$@"'
    subprocess.run(["bash", "-c", script, str(SOURCE / "jobs" / "environment.sh"),
                    *map(str, command)], check=True, stdout=subprocess.DEVNULL)
    with h5py.File(out) as file:
        rows = file["iterations"]
        seconds = statistics.median(rows["wall_s"][WARMUP:])
        return rows["tokens"][-1] / seconds, rows["loss"][-1], precision


def settings_of(name, args):
    """Deck keys that differ from the deck's."""
    settings = {"train.batch": args.batch or (4 if args.small else DECKS[name])}
    if args.small:
        settings.update({f"model.{key}": value for key, value in SMALL.items()})
        if name == "bert-sgmoe":
            settings["model.moe.experts"] = 4
    return settings


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(DECKS), metavar="MODEL",
                        help=f"of {', '.join(DECKS)}")
    parser.add_argument("--hidup", default=SOURCE / "build-cuda" / "hidup", help="the program")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--batch", type=int, help="sequences per step")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--small", action="store_true", help="tiny models: figures mean nothing")
    args = parser.parse_args()
    if args.steps <= WARMUP:
        parser.error(f"--steps: expected more than {WARMUP}, which warm up")
    if unknown := set(args.models) - set(DECKS):
        parser.error(f"no such model: {', '.join(sorted(unknown))}; known: {', '.join(DECKS)}")
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("peer.py: PyTorch finds no GPU; --device cpu --small shows that it works")

    place = torch.cuda.get_device_name() if args.device == "cuda" else "the CPU"
    print(f"## hidup beside PyTorch {torch.__version__}\n\n{place}, one rank, {args.steps - WARMUP} "
          "steps. Loss: of the last step, each with parameters of its own.\n")
    if args.small:
        print("Tiny models: the figures mean nothing.\n")
    print("| model | batch | PyTorch tokens/s | loss | hidup tokens/s | loss | hidup's precision | "
          "hidup / PyTorch | PyTorch lacks |\n|---|---|---|---|---|---|---|---|---|")
    for name in args.models:
        deck = yaml.safe_load((SOURCE / "inputs" / "models" / f"{name}.yaml").read_text())
        settings = settings_of(name, args)
        for key, value in settings.items():
            *sections, last = key.split(".")
            section = deck
            for part in sections:
                section = section[part]
            section[last] = value
        theirs, their_loss, missing = run_torch(deck, args.device, args.steps)
        if args.device == "cuda":
            torch.cuda.empty_cache()
        with tempfile.TemporaryDirectory(prefix="hidup-peer-") as folder:
            ours, our_loss, precision = run_hidup(args.hidup, name, settings, args.device,
                                                  args.steps, pathlib.Path(folder))
        print(f"| {name} | {settings['train.batch']} | {theirs:,.0f} | {their_loss:.3f} | "
              f"{ours:,.0f} | {our_loss:.3f} | {precision} | {ours / theirs:.2f} | "
              f"{', '.join(missing) or 'nothing'} |", flush=True)


if __name__ == "__main__":
    main()
