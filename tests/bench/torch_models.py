"""The models of our decks in PyTorch, as fast as it can run them: scaled_dot_product_attention; experts by
sorting tokens into buffers of the same capacity as hidup's, and one batched product."""

import math

import torch
from torch import nn
from torch.nn import functional as F


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
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, sequence, hidden))


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
    """Two experts for each token, which is dropped if no slot is left. Capacity is per sequence."""

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

    def type_of_products(self):
        device = self.up.device.type
        return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32

    def forward(self, x):
        batch, sequence, hidden = x.shape
        p = self.router(x).float().softmax(-1)
        weights, chosen = p.topk(self.choices, dim=-1)  # [batch, sequence, choices]
        if self.choices > 1:
            weights = weights / weights.sum(-1, keepdim=True)
        # First choices precede second ones: the number of earlier choices of the same expert.
        order = chosen.transpose(1, 2).reshape(batch, -1)  # [batch, choices x sequence]
        one_hot = F.one_hot(order, self.experts)
        slot = (one_hot.cumsum(1) * one_hot).sum(-1) - 1
        kept = slot < self.capacity
        rows = batch * self.capacity  # of an expert
        sequences = torch.arange(batch, device=x.device)[:, None]
        row = (order * batch + sequences) * self.capacity + slot
        row = torch.where(kept, row, torch.full_like(row, self.experts * rows)).flatten()
        tokens = x.to(self.type_of_products()).repeat(1, self.choices, 1).reshape(-1, hidden)
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
    """The model of src/models/transformer.cpp: gpt (GPT-2) or bert."""

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
