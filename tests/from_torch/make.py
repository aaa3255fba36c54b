#!/usr/bin/env python3
"""Makes the files of this folder anew from zoo.py: for every model its nodes as PyTorch exports them,
the graph file made from them, and the golden values of its deck.

    make.py [MODEL ...]

The golden values (in the form of tests/golden, float64) are those of the model in PyTorch, with the
initial values of hidup. Needs PyTorch 2.6 or later, transformers, numpy and PyYAML; run it only after
a change of analysis/torch_graph or zoo.py.
"""

import json
import pathlib
import sys

import numpy
import torch
import yaml

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parents[1] / "analysis"), str(FOLDER.parent / "golden")]

import zoo  # noqa: E402
import make_golden  # noqa: E402
from philox import normal, uniform  # noqa: E402
from torch_graph import exchange, nodes as node_files  # noqa: E402
from torch_graph.export import WithOneResult, export, takes_targets  # noqa: E402
from torch_graph.graph import decays, start_of, text_of  # noqa: E402
from torch_graph.translate import translate  # noqa: E402

MODELS = ("gpt2", "bert", "encoder", "by_hand", "einsum", "vit", "rms")


def initial_values(tensor, seed):
    """Returns the initial values of a parameter of hidup, float32."""
    kind, *scale = start_of(tensor)
    if kind in ("zeros", "ones"):
        return numpy.full(tensor.shape, kind == "ones", dtype=numpy.float32)
    scale = numpy.float32(f"{scale[0]:.7g}")  # as written in the graph file
    if kind == "normal":
        return scale * normal(seed, "init/" + tensor.name, 0, tensor.shape)
    u = uniform(seed, "init/" + tensor.name, 0, tensor.shape)
    return scale * (numpy.float32(2) * u - numpy.float32(1))


def loss_and_accuracy(model, x, targets):
    """Returns both; the accuracy is None where the model gives the loss alone."""
    result = WithOneResult(model)(x, *([targets] if takes_targets(model) else []))
    if result.ndim == 0:
        return result, None
    accuracy = (result.argmax(-1) == targets).double().mean().item()
    return torch.nn.functional.cross_entropy(result.flatten(0, -2), targets.flatten()), accuracy


def batch_of(deck, step):
    if deck["data"]["kind"] == "images":
        patches, targets = make_golden.synthetic_images(deck, step)
        apart = patches.view(-1, 8, 8, 3, 4, 4).permute(0, 3, 1, 4, 2, 5)
        return apart.reshape(-1, 3, 32, 32), targets
    return [part.contiguous() for part in make_golden.synthetic_batch(deck, step)]


def input_shape(deck):
    batch = deck["train"]["batch"]
    return (batch, 3, 32, 32) if deck["data"]["kind"] == "images" else (
        batch, deck["model"]["sequence"])


def golden_values(model, parameters, mapping, deck):
    """Trains the model as hidup trains its graph."""
    train = deck["train"]
    model = model.double()
    held = {name: value for name, value in model.named_parameters()}
    arrays = {name: value.detach().numpy() for name, value in held.items()}
    exchange.to_torch({tensor.name: initial_values(tensor, train["seed"])
                       for tensor in parameters}, mapping, arrays)
    decay = {piece.base.name for tensor in parameters if decays(tensor) for piece in tensor.pieces}
    groups = [{"params": [held[name] for name in held if (name in decay) == member],
               "weight_decay": train["weight_decay"] if member else 0.0}
              for member in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=train["lr"], betas=(0.9, 0.999), eps=1e-8)
    golden = {"loss": [], "grad_norm": []}
    for step in range(1, train["steps"] + 1):
        optimizer.zero_grad()
        loss, accuracy = loss_and_accuracy(model, *batch_of(deck, step))
        loss.backward()
        if step == 1:
            gradients = {name: value.grad.numpy().copy() for name, value in held.items()
                         if value.grad is not None}
            golden["gradients"] = {name: torch.tensor(value) for name, value in
                                   exchange.from_torch(gradients, mapping).items()}
        norm = torch.nn.utils.clip_grad_norm_(held.values(), train["clip_norm"])
        optimizer.step()
        golden["loss"].append(loss.item())
        golden["grad_norm"].append(norm.item())
        if deck["data"]["kind"] == "images":
            golden.setdefault("accuracy", []).append(accuracy)
    return golden


def make(name):
    deck = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    torch.manual_seed(1)
    model = getattr(zoo, name)()
    nodes = export(model, input_shape(deck))
    for node in nodes:
        node.source = node.source.replace(str(FOLDER) + "/", "").rpartition("site-packages/")[2]
    with open(FOLDER / f"{name}.nodes.json", "w", encoding="utf-8") as file:
        node_files.dump(nodes, file)
    graph, loss = translate(nodes, name)
    comment = f"# zoo.py: {name}(), by make.py"
    (FOLDER / f"{name}.txt").write_text(text_of(graph, loss, comment), encoding="utf-8")
    mapping = json.loads(exchange.map_of(graph, loss))
    parameters = [tensor for tensor in graph.used(loss) if tensor.pieces]
    make_golden.write(golden_values(model, parameters, mapping, deck), FOLDER / f"{name}.json")


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or MODELS:
        make(name)


if __name__ == "__main__":
    main()
