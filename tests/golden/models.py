"""The models of src/models, written with PyTorch: parameters by name, and the loss of a batch."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from images import PATCH_VALUES
from philox import normal, uniform


class Bert:
    """A post-norm transformer with causal attention; `parameters` by name.

    loss() takes a step's inputs, the targets and the step.
    create_feed_forward() and feed_forward() are the half of a block after attention.
    """

    causal = True
    gated = False  # feed-forward networks are SwiGLU

    def __init__(self, model, seed, dtype):
        self.model, self.seed, self.dtype = model, seed, dtype
        self.right = 0.0  # of the last step: the fraction of targets with the largest logit
        self.head = model["hidden"] // model["heads"]
        self.parameters = {}
        self.create_parameters()

    def create(self, name, shape, bound=None, value=0.0):
        """Creates a parameter: uniform in [-bound, bound) in float32, or constant."""
        if bound is None:
            data = np.full(shape, value, dtype=np.float32)
        else:
            u = uniform(self.seed, "init/" + name, 0, shape)
            data = np.float32(bound) * (np.float32(2) * u - np.float32(1))
        self.parameters[name] = torch.tensor(data, dtype=self.dtype, requires_grad=True)

    def create_normal(self, name, shape, deviation):
        data = np.float32(deviation) * normal(self.seed, "init/" + name, 0, shape)
        self.parameters[name] = torch.tensor(data, dtype=self.dtype, requires_grad=True)

    def create_parameters(self):
        hidden, vocab = self.model["hidden"], self.model["vocab"]
        self.create("embedding.weight", (vocab, hidden), 0.1)
        self.create_blocks()
        self.create("head.weight", (hidden, vocab), 0.1)
        self.create("head.bias", (vocab,))

    def create_blocks(self):
        hidden, heads, head = self.model["hidden"], self.model["heads"], self.head
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

    def create_feed_forward(self, layer):
        hidden, ffn, at = self.model["hidden"], self.model["ffn"], f"layers.{layer}.ffn."
        self.create_inner(at + "up", (hidden, ffn), (ffn,))
        self.create_inner(at + "down", (ffn, hidden), (hidden,))

    def create_inner(self, name, weight, bias=None):
        """Creates the parameters of a feed-forward network, an expert or a router."""
        bound = 1 / math.sqrt(weight[-2])
        self.create(name + ".weight", weight, bound)
        if bias is not None:
            self.create(name + ".bias", bias, bound)

    def loss(self, tokens, targets, step):
        hidden, p = self.model["hidden"], self.parameters
        h = p["embedding.weight"][tokens] * math.sqrt(hidden) + self.positions(tokens.shape[1])
        h = self.blocks(self.dropout("embedding.dropout", h, step), step)
        return self.cross_entropy(h @ p["head.weight"] + p["head.bias"], targets)

    def blocks(self, h, step):
        for layer in range(self.model["layers"]):
            at = f"layers.{layer}."
            out = self.attention(at + "attention.", h)
            h = self.norm(at + "norm1", h + self.dropout(at + "attention.dropout", out, step))
            h = self.norm(at + "norm2", h + self.feed_forward(layer, h, step))
        return h

    def cross_entropy(self, logits, targets):
        self.right = (logits.argmax(-1) == targets).double().mean().item()
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten())

    def feed_forward(self, layer, h, step):
        p, at = self.parameters, f"layers.{layer}.ffn."
        up = self.activation(at, h @ p[at + "up.weight"] + p[at + "up.bias"], step)
        down = up @ p[at + "down.weight"] + p[at + "down.bias"]
        return self.dropout(at + "dropout", down, step)

    def activation(self, at, x, step):
        return self.dropout(at + "activation_dropout", F.relu(x), step)

    def positions(self, sequence):
        """Returns sinusoids (Vaswani et al. 2017, section 3.5)."""
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
        if self.causal:
            future = torch.ones(sequence, sequence, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(future, -math.inf)
        y = scores.softmax(-1) @ v
        return torch.einsum("bnsd,ndh->bsh", y, p[at + "out.weight"]) + p[at + "out.bias"]

    def norm(self, at, h):
        weight, bias = self.parameters[at + ".weight"], self.parameters[at + ".bias"]
        return F.layer_norm(h, (self.model["hidden"],), weight, bias, eps=1e-5)

    def dropout(self, name, h, step):
        rate = self.model["dropout"]
        keep = uniform(self.seed, "dropout/" + name, step, tuple(h.shape)) >= rate
        return h * torch.tensor(keep, dtype=self.dtype) / (1 - rate)


class Gpt(Bert):
    """GPT-2: pre-norm blocks with GELU (tanh form), learned positions, a last layer norm, and a head that
    shares the embedding's weight."""

    DEVIATION = 0.02

    def before_residual(self):
        return self.DEVIATION / math.sqrt(2 * self.model["layers"])

    def create_parameters(self):
        hidden, heads, vocab = (self.model[k] for k in ("hidden", "heads", "vocab"))
        self.create_normal("embedding.weight", (vocab, hidden), self.DEVIATION)
        self.create_normal("positions.weight", (self.model["sequence"], hidden), self.DEVIATION)
        for layer in range(self.model["layers"]):
            at = f"layers.{layer}."
            self.create_norm(at + "norm1")
            self.create_normal(at + "attention.qkv.weight", (hidden, 3, heads, self.head),
                               self.DEVIATION)
            self.create(at + "attention.qkv.bias", (3, heads, self.head))
            self.create_normal(at + "attention.out.weight", (heads, self.head, hidden),
                               self.before_residual())
            self.create(at + "attention.out.bias", (hidden,))
            self.create_norm(at + "norm2")
            self.create_feed_forward(layer)
        self.create_norm("norm")

    def create_norm(self, name):
        self.create(name + ".weight", (self.model["hidden"],), value=1.0)
        self.create(name + ".bias", (self.model["hidden"],))

    def create_inner(self, name, weight, bias=None):
        last = name.endswith(".down")
        self.create_normal(name + ".weight", weight,
                           self.before_residual() if last else self.DEVIATION)
        if bias is not None:
            self.create(name + ".bias", bias)

    def loss(self, tokens, targets, step):
        p = self.parameters
        h = p["embedding.weight"][tokens] + p["positions.weight"]
        h = self.dropout("embedding.dropout", h, step)
        for layer in range(self.model["layers"]):
            at = f"layers.{layer}."
            out = self.attention(at + "attention.", self.norm(at + "norm1", h))
            h = h + self.dropout(at + "attention.dropout", out, step)
            h = h + self.feed_forward(layer, self.norm(at + "norm2", h), step)
        return self.cross_entropy(self.norm("norm", h) @ p["embedding.weight"].T, targets)

    def activation(self, at, x, step):
        return F.gelu(x, approximate="tanh")


class Llama(Gpt):
    """Llama: RMS norms, rotary positions in the order of the public code, heads that share keys and values,
    SwiGLU, no biases, a head of its own or tied."""

    gated = True

    def before_residual(self):
        return self.DEVIATION

    def create_parameters(self):
        hidden, heads, vocab = (self.model[k] for k in ("hidden", "heads", "vocab"))
        shared, head = self.model["kv_heads"], self.head
        self.create_normal("embedding.weight", (vocab, hidden), self.DEVIATION)
        for layer in range(self.model["layers"]):
            at = f"layers.{layer}."
            self.create_norm(at + "norm1")
            for name, shape in (("q", (hidden, shared, heads // shared, head)),
                                ("k", (hidden, shared, head)), ("v", (hidden, shared, head)),
                                ("out", (shared, heads // shared, head, hidden))):
                self.create_normal(f"{at}attention.{name}.weight", shape, self.DEVIATION)
            self.create_norm(at + "norm2")
            self.create_feed_forward(layer)
        self.create_norm("norm")
        if not self.model.get("tied_head"):
            self.create_normal("head.weight", (hidden, vocab), self.DEVIATION)

    def create_norm(self, name):
        self.create(name + ".weight", (self.model["hidden"],), value=1.0)

    def create_feed_forward(self, layer):
        hidden, ffn, at = self.model["hidden"], self.model["ffn"], f"layers.{layer}.ffn."
        for name, shape in (("gate", (hidden, ffn)), ("up", (hidden, ffn)), ("down", (ffn, hidden))):
            self.create_inner(at + name, shape)

    def loss(self, tokens, targets, step):
        p = self.parameters
        h = self.dropout("embedding.dropout", p["embedding.weight"][tokens], step)
        for layer in range(self.model["layers"]):
            at = f"layers.{layer}."
            out = self.attention(at + "attention.", self.norm(at + "norm1", h))
            h = h + self.dropout(at + "attention.dropout", out, step)
            h = h + self.feed_forward(layer, self.norm(at + "norm2", h), step)
        tied = self.model.get("tied_head")
        head = p["embedding.weight"].T if tied else p["head.weight"]
        return self.cross_entropy(self.norm("norm", h) @ head, targets)

    def norm(self, at, h):
        mean = h.square().mean(-1, keepdim=True)
        return h * (mean + self.model.get("norm_epsilon", 1e-5)).rsqrt() * self.parameters[
            at + ".weight"]

    def attention(self, at, h):
        p, sequence = self.parameters, h.shape[1]
        q = self.turn(torch.einsum("bsk,kgnd->bgnsd", h, p[at + "q.weight"]))
        k = self.turn(torch.einsum("bsk,kgd->bgsd", h, p[at + "k.weight"]))[:, :, None]
        v = torch.einsum("bsk,kgd->bgsd", h, p[at + "v.weight"])[:, :, None]
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.head)
        future = torch.ones(sequence, sequence, dtype=torch.bool).triu(1)
        y = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        return torch.einsum("bgnsd,gndh->bsh", y, p[at + "out.weight"])

    def turn(self, x):
        """Turns the channels j and j + head/2 by p theta^(-2j/head); x: [.., sequence, head]."""
        half = self.head // 2
        frequency = self.model.get("rope_theta", 10000) ** (
            -torch.arange(half, dtype=torch.float64) / half)
        angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequency
        cosine, sine = angle.cos().to(self.dtype), angle.sin().to(self.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)

    def feed_forward(self, layer, h, step):
        p, at = self.parameters, f"layers.{layer}.ffn."
        inner = F.silu(h @ p[at + "gate.weight"]) * (h @ p[at + "up.weight"])
        return self.dropout(at + "dropout", inner @ p[at + "down.weight"], step)

    def activation(self, at, x, step):
        return F.silu(x)


class Vit(Bert):
    """Bert's blocks without a mask on patches of images, with a class token before them and learned
    positions; the head reads the class token."""

    causal = False

    def create_parameters(self):
        hidden = self.model["hidden"]
        self.create_inner("patches", (PATCH_VALUES, hidden), (hidden,))
        self.create("class_token.weight", (hidden,))
        self.create_normal("positions.weight", (self.model["sequence"], hidden), 0.02)
        self.create_blocks()
        self.create("head.weight", (hidden, self.model["vocab"]), 1 / math.sqrt(hidden))
        self.create("head.bias", (self.model["vocab"],))

    def loss(self, images, targets, step):
        p = self.parameters
        h = images @ p["patches.weight"] + p["patches.bias"]
        token = p["class_token.weight"].expand(len(h), 1, -1)
        h = torch.cat([token, h], 1) + p["positions.weight"]
        h = self.blocks(self.dropout("embedding.dropout", h, step), step)
        return self.cross_entropy(h[:, 0] @ p["head.weight"] + p["head.bias"], targets)


class Experts:
    """Precedes a family among a class's bases: blocks at regular intervals get experts. GShard (Lepikhin et
    al. 2020) with the router top2, Switch (Fedus et al. 2021) with top1. `auxiliary` is minimised beside the
    loss; `router_losses` has its parts without their weights."""

    # float32 could order closer logits differently, and golden values would depend on rounding.
    MARGIN = 1e-4

    def __init__(self, model, seed, dtype):
        moe = model["moe"]
        self.experts, self.every = moe["experts"], moe["every"]
        self.first, self.shared = moe.get("first_dense", 0), moe.get("shared_experts", 0)
        self.ffn = moe.get("ffn", model["ffn"])
        self.sigmoid = moe.get("score") == "sigmoid"
        self.scaling = moe.get("routed_scaling", 1.0)
        self.speed = moe.get("balance_speed")
        self.router_bias = {}  # by layer with experts, where the choice has biases
        self.choices = moe["top_k"] if moe["router"] == "topk" else int(moe["router"][3:])
        self.normalize = self.choices > 1 and moe.get("normalize", True)
        self.bias = moe.get("bias", True)  # YAML reads off as False
        self.weights = {name: moe[name] for name in ("balance_loss", "z_loss") if name in moe}
        self.gshard = moe.get("balance") == "gshard"
        factor = math.inf if moe["capacity_factor"] == "none" else moe["capacity_factor"]
        slots = factor * self.choices * model["sequence"] / self.experts
        self.capacity = math.ceil(min(max(slots, 1), model["sequence"]))
        self.loads = []  # of the last step, by layer with experts: [2, experts]
        super().__init__(model, seed, dtype)

    def has_experts(self, layer):
        return layer >= self.first and (layer + 1) % self.every == 0

    def create_feed_forward(self, layer):
        if not self.has_experts(layer):
            super().create_feed_forward(layer)
            return
        hidden, ffn, experts = self.model["hidden"], self.ffn, self.experts
        at = f"layers.{layer}.moe."
        self.create_inner(at + "router", (hidden, experts))
        if self.speed is not None:
            self.router_bias[layer] = torch.zeros(experts, dtype=self.dtype)
        for part in ["gate"] * self.gated + ["up"]:
            self.create_inner(f"{at}experts.{part}", (experts, hidden, ffn),
                              (experts, ffn) if self.bias else None)
        self.create_inner(at + "experts.down", (experts, ffn, hidden),
                          (experts, hidden) if self.bias else None)
        if self.shared:
            width, bias = self.shared * ffn, self.bias and not self.gated
            for part in ["gate"] * self.gated + ["up"]:
                self.create_inner(f"{at}shared.{part}", (hidden, width),
                                  (width,) if bias else None)
            self.create_inner(at + "shared.down", (width, hidden), (hidden,) if bias else None)

    def shared_experts(self, at, h, step):
        def product(part, x):
            y = x @ self.parameters[at + part + ".weight"]
            return y + self.parameters.get(at + part + ".bias", 0.0)

        up = product("up", h)
        inner = (F.silu(product("gate", h)) * up if self.gated else self.activation(at, up, step))
        return product("down", inner)

    def after_step(self):
        """Moves the biases of the choice by the loads of the step (DeepSeek-V3, section 2.1.2)."""
        for (_, bias), load in zip(sorted(self.router_bias.items()), self.loads):
            chosen = load[0].to(self.dtype)
            bias += self.speed * (chosen.mean() - chosen).sign()

    def loss(self, tokens, targets, step):
        self.loads, self.auxiliary = [], 0.0
        self.router_losses = {name: 0.0 for name in self.weights}
        return super().loss(tokens, targets, step)

    def add_router_losses(self, logits, chosen):
        """Adds the losses of one layer: Switch's equations 4 to 6, or GShard's algorithm 1, which counts
        first choices only; ST-MoE's equation 5 (Zoph et al. 2022)."""
        experts, counted = self.experts, chosen[..., :1] if self.gshard else chosen
        fraction = F.one_hot(counted, experts).to(self.dtype).mean((0, 1, 2))
        product = fraction * logits.softmax(-1).mean((0, 1))
        losses = {"balance_loss": product.mean() if self.gshard else experts * product.sum(),
                  "z_loss": logits.logsumexp(-1).square().mean()}
        for name, weight in self.weights.items():
            self.auxiliary = self.auxiliary + weight * losses[name]
            self.router_losses[name] += losses[name].item()

    def feed_forward(self, layer, h, step):
        if not self.has_experts(layer):
            return super().feed_forward(layer, h, step)
        p, at = self.parameters, f"layers.{layer}.moe."
        batch, _, hidden = h.shape
        logits = h @ p[at + "router.weight"]
        scores = logits.sigmoid() if self.sigmoid else logits.softmax(-1)
        biased = scores + self.router_bias[layer] if self.router_bias else logits
        chosen, slots = self.route(biased.detach())
        gates = scores.gather(-1, chosen)
        if self.normalize:
            gates = gates / gates.sum(-1, keepdim=True)
        gates = self.scaling * gates
        self.add_router_losses(logits, chosen)

        # Sequence, position, number and row of every choice that has a slot.
        b, s, c = (slots < self.capacity).nonzero(as_tuple=True)
        row = (chosen[b, s, c], b, slots[b, s, c])
        buffer = torch.zeros(self.experts, batch, self.capacity, hidden, dtype=self.dtype)
        buffer = buffer.index_put(row, h[b, s])
        used = torch.zeros(self.experts, batch, self.capacity, 1, dtype=self.dtype)
        used[row] = 1.0

        def product(part):
            y = torch.einsum("ebch,ehf->ebcf", buffer, p[f"{at}experts.{part}.weight"])
            return (y + p[f"{at}experts.{part}.bias"][:, None, None, :]) * used if self.bias else y

        up = product("up")
        up = F.silu(product("gate")) * up if self.gated else self.activation(at, up, step)
        down = torch.einsum("ebcf,efh->ebch", up, p[at + "experts.down.weight"])
        if self.bias:
            down = down + p[at + "experts.down.bias"][:, None, None, :]
        y = torch.zeros_like(h).index_put((b, s), gates[b, s, c][:, None] * down[row],
                                          accumulate=True)
        if self.shared:
            y = y + self.shared_experts(at + "shared.", h, step)
        return self.dropout(at + "dropout", y, step)

    def route(self, logits):
        """Returns the experts that tokens choose and the slots of these choices, both [batch, sequence,
        choices]; slots beyond the capacity do not exist. All first choices of a sequence, by position,
        precede all second choices."""
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


class BertMoe(Experts, Bert):
    pass


class GptMoe(Experts, Gpt):
    pass


class VitMoe(Experts, Vit):
    pass


class LlamaMoe(Experts, Llama):
    pass


# Classes of dense models and of models with experts.
FAMILIES = {"bert": (Bert, BertMoe), "gpt": (Gpt, GptMoe), "vit": (Vit, VitMoe),
            "llama": (Llama, LlamaMoe)}
