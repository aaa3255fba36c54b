"""Models of gpt2.yaml and llama.yaml in transformers, and their training in PyTorch."""

import pathlib
import sys

import torch
import transformers
import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "golden"))

from make_golden import synthetic_batch  # noqa: E402

MODELS = "gpt2", "llama"


def read_deck(name):
    return yaml.safe_load((HERE / f"{name}.yaml").read_text())


def create(name, model):
    if name == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=model["vocab"], n_positions=model["sequence"], n_embd=model["hidden"],
            n_layer=model["layers"], n_head=model["heads"], n_inner=model["ffn"],
            embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0, bos_token_id=None, eos_token_id=None))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=model["vocab"], max_position_embeddings=model["sequence"],
        hidden_size=model["hidden"], intermediate_size=model["ffn"],
        num_hidden_layers=model["layers"], num_attention_heads=model["heads"],
        num_key_value_heads=model["kv_heads"], rms_norm_eps=1e-5, bos_token_id=None,
        eos_token_id=None))


def make(name, deck):
    """Returns a model with random weights; no bias is 0, and no norm's weight 1."""
    torch.manual_seed(3)
    model = create(name, deck["model"])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
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
    return model.double().eval()
