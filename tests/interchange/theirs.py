"""Models of the decks in this folder in transformers, and their training in PyTorch."""

import pathlib
import sys

import torch
import transformers
import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "golden"))

from make_golden import synthetic_batch  # noqa: E402

MODELS = "gpt2", "llama", "mixtral", "deepseek"


def read_deck(name):
    return yaml.safe_load((HERE / f"{name}.yaml").read_text())


def create(name, model):
    if name == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=model["vocab"], n_positions=model["sequence"], n_embd=model["hidden"],
            n_layer=model["layers"], n_head=model["heads"], n_inner=model["ffn"],
            embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0, bos_token_id=None, eos_token_id=None))
    common = dict(
        vocab_size=model["vocab"], max_position_embeddings=model["sequence"],
        hidden_size=model["hidden"], intermediate_size=model["ffn"],
        num_hidden_layers=model["layers"], num_attention_heads=model["heads"],
        num_key_value_heads=model["kv_heads"], rms_norm_eps=1e-5, bos_token_id=None,
        eos_token_id=None)
    if name == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**common))
    moe = model["moe"]
    if name == "mixtral":
        return transformers.MixtralForCausalLM(transformers.MixtralConfig(
            num_local_experts=moe["experts"], num_experts_per_tok=2, rope_theta=10000.0, **common))
    return transformers.Glm4MoeForCausalLM(transformers.Glm4MoeConfig(
        n_routed_experts=moe["experts"], num_experts_per_tok=moe["top_k"],
        n_shared_experts=moe["shared_experts"], moe_intermediate_size=moe["ffn"],
        first_k_dense_replace=moe["first_dense"], routed_scaling_factor=moe["routed_scaling"],
        head_dim=model["hidden"] // model["heads"], norm_topk_prob=True, n_group=1, topk_group=1,
        partial_rotary_factor=1.0, use_qk_norm=False, attention_bias=False, **common))


def in_double(model):
    """Lets experts compute in double precision, too; their fast products cannot."""
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    return model


def make(name, deck):
    """Returns a model with random weights; no bias is 0, and no norm's weight 1."""
    torch.manual_seed(3)
    model = in_double(create(name, deck["model"]))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.add_(0.05 * torch.randn_like(buffer))
    return model


def loss_of(model, tokens, targets):
    logits = model(tokens).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


def train(model, deck):
    """Returns the losses of the deck's steps, in double precision."""
    options = deck["train"]
    model.double().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=options["lr"],
                                  weight_decay=options["weight_decay"])
    losses = []
    for step in range(1, options["steps"] + 1):
        optimizer.zero_grad()
        loss = loss_of(model, *synthetic_batch(deck, step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def pretrained(folder):
    """Returns the model that from_pretrained() finds in the folder, in double precision."""
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder,
                                                                   output_loading_info=True)
    wrong = {what: keys for what, keys in info.items() if keys}
    assert not wrong, wrong
    return in_double(model).double().eval()
