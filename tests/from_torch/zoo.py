"""Models of PyTorch in common styles, for analysis/from_torch.py."""

import math

import torch
from torch import nn
from torch.nn import functional as F

VOCAB, HIDDEN, HEADS, FFN, POSITIONS = 31, 12, 3, 20, 9


def gpt2():
    """Conv1D, one projection, a tied head, GELU in single operators."""
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCAB, n_positions=POSITIONS, n_embd=HIDDEN, n_layer=2, n_head=HEADS,
        n_inner=FFN, attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0, use_cache=False,
        bos_token_id=0, eos_token_id=0))


def bert():
    """Three projections, three tables, post-norm, a head of its own with a tied weight."""
    from transformers import BertConfig, BertForMaskedLM
    return BertForMaskedLM(BertConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=HEADS,
        intermediate_size=FFN, hidden_act="gelu_pytorch_tanh", hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, max_position_embeddings=POSITIONS, pad_token_id=None))


class Encoder(nn.Module):
    """PyTorch's own layers with the sequence first, sinusoids, and the loss inside."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCAB, HIDDEN)
        layer = nn.TransformerEncoderLayer(HIDDEN, HEADS, FFN, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(HIDDEN, VOCAB)
        angle = torch.arange(POSITIONS)[:, None] * torch.exp(
            torch.arange(0, HIDDEN, 2) * (-math.log(10000.0) / HIDDEN))
        table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
        self.register_buffer("sinusoids", table[:, None])

    def forward(self, tokens, targets):
        sequence = tokens.shape[1]
        x = self.table(tokens.t()) * math.sqrt(HIDDEN) + self.sinusoids[:sequence]
        mask = nn.Transformer.generate_square_subsequent_mask(sequence, dtype=x.dtype)
        logits = self.head(self.layers(x, mask=mask, is_causal=True))
        return F.cross_entropy(logits.permute(1, 2, 0), targets)


class ByHand(nn.Module):
    """Attention from products, mask and softmax, heads of [query, key, value] each, SiLU by its formula,
    positions as a parameter, and several results."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(0.5 * torch.randn(VOCAB, HIDDEN))
        self.positions = nn.Parameter(0.1 * torch.randn(1, POSITIONS, HIDDEN))
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-6)
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.up = nn.Parameter(torch.randn(HIDDEN, FFN) / math.sqrt(HIDDEN))
        self.down = nn.Linear(FFN, HIDDEN)
        self.register_buffer("past", torch.tril(torch.ones(POSITIONS, POSITIONS)))

    def forward(self, tokens, targets):
        batch, sequence = tokens.shape
        x = F.embedding(tokens, self.table) + self.positions[:, :sequence]
        qkv = self.qkv(self.norm(x)).view(batch, sequence, HEADS, -1).transpose(1, 2)
        q, k, v = qkv.chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(HIDDEN // HEADS)
        scores = scores.masked_fill(self.past[:sequence, :sequence] == 0, float("-inf"))
        heads = scores.softmax(-1) @ v
        x = x + self.out(heads.transpose(1, 2).reshape(batch, sequence, HIDDEN))
        inner = x @ self.up
        x = x + self.down(inner * torch.sigmoid(inner))
        logits = x @ self.table.t()
        loss = F.nll_loss(F.log_softmax(logits.view(-1, VOCAB), dim=-1), targets.view(-1))
        return logits, loss


class Einsum(nn.Module):
    """Attention by einsum with a dimension for heads, then by PyTorch's module with a mask added to the
    scores."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCAB, HIDDEN)
        self.qkv = nn.Parameter(0.3 * torch.randn(3, HIDDEN, HEADS, HIDDEN // HEADS))
        self.out = nn.Parameter(0.3 * torch.randn(HEADS, HIDDEN // HEADS, HIDDEN))
        self.attention = nn.MultiheadAttention(HIDDEN, HEADS, batch_first=True)
        self.head = nn.Linear(HIDDEN, VOCAB)

    def forward(self, tokens):
        x = self.table(tokens)
        q, k, v = torch.einsum("bsk,tknd->tbsnd", x, self.qkv)
        weights = torch.einsum("bqnd,bknd->bnqk", q, k).div(math.sqrt(q.shape[-1])).softmax(-1)
        heads = torch.einsum("bnqk,bknd->bqnd", weights, v)
        x = x + torch.einsum("bqnd,ndk->bqk", heads, self.out)
        sequence = x.shape[1]
        future = torch.full((sequence, sequence), -math.inf, dtype=x.dtype).triu(1)
        return self.head(x + self.attention(x, x, x, attn_mask=future)[0])


def vit():
    """Patches by a convolution, a class token, pre-norm, the head on the first position."""
    from transformers import ViTConfig, ViTForImageClassification
    return ViTForImageClassification(ViTConfig(
        image_size=32, patch_size=4, hidden_size=HIDDEN, num_hidden_layers=1,
        num_attention_heads=HEADS, intermediate_size=FFN, hidden_act="gelu_new",
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=10))


class HandNorm(nn.Module):
    """RMS norm as in Meta's llama; `written`: 1 as in transformers, 2 with a root and a quotient."""

    def __init__(self, written):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))
        self.written = written

    def forward(self, x):
        if self.written == 2:
            return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-3) * self.weight
        wide = x.float()
        y = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype) if self.written else y.type_as(x) * self.weight


class Rms(nn.Module):
    """RMS norms of PyTorch and by hand, between residuals, and fewer words than rows of the table."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCAB + 5, HIDDEN)
        self.norms = nn.ModuleList([nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN, eps=1e-5),
                                    *(HandNorm(written) for written in range(3))])
        self.layers = nn.ModuleList(nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in self.norms)
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.table(tokens)
        for norm, layer in zip(self.norms, self.layers):
            x = x + F.silu(layer(norm(x)))
        return self.head(x)


encoder, by_hand, einsum, rms = Encoder, ByHand, Einsum, Rms
