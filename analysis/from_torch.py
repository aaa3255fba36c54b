#!/usr/bin/env python3
"""Writes a PyTorch model as a graph file, for hidup to train (model.graph).

    from_torch.py module:function --input 8x128:int64 -o model.txt

function() returns a torch.nn.Module, in training mode if dropout is wanted. forward(tokens) returns
logits [batch, sequence, classes], alone, as the first of several, or as `.logits`; their cross entropy
is the loss. forward(tokens, targets), with an argument of that name, returns the loss, alone or among
others. tokens and targets are int64 [batch, sequence], 8 and 128 above. With --input
8x3x32x32:float32 the first argument is images, and targets are int64 [batch].

torch.export lists the ATen operators that the model calls. They become operations of hidup; an operator
without a counterpart is an error that names the node and its line in the model's source. A parameter
starts with the distribution of its values in the model: zeros, ones, uniform or normal. The program also
writes model.yaml, a deck that trains the graph, unless it exists, and model.map.json, which maps each
parameter of the graph to those of PyTorch (torch_graph/exchange.py converts their values).

Needs PyTorch 2.6 or later and numpy.
"""

import argparse
import importlib
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


def input_shape(text):
    match = re.fullmatch(r"(\d+)x(\d+):int64|(\d+)x(3)x(32)x(32):float32", text)
    if not match:
        raise argparse.ArgumentTypeError("expected BATCHxSEQUENCE:int64, as in 8x128:int64, or of "
                                         "images BATCHx3x32x32:float32")
    return tuple(int(extent) for extent in match.groups() if extent)


def make_model(text):
    """Calls MODULE:FUNCTION; the module may also lie in the working directory."""
    name, _, function = text.partition(":")
    if not function:
        sys.exit(f"from_torch: expected MODULE:FUNCTION, found {text}")
    sys.path.insert(0, os.getcwd())
    return getattr(importlib.import_module(name), function)()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="module:function")
    parser.add_argument("--input", type=input_shape, required=True, metavar="8x128:int64")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True, metavar="model.txt")
    arguments = parser.parse_args()
    try:
        from torch_graph.export import export
    except ImportError as error:
        sys.exit(f"from_torch: {error}; it needs PyTorch 2.6 or later, and numpy")
    from torch_graph.deck import deck_of
    from torch_graph.exchange import map_of
    from torch_graph.graph import text_of
    from torch_graph.nodes import NotSupported
    from torch_graph.translate import translate

    model = make_model(arguments.model)
    try:
        nodes = export(model, arguments.input)
    except NotSupported as error:
        sys.exit(f"from_torch: {error}")
    except Exception as error:  # PyTorch raises many kinds
        sys.exit(f"from_torch: torch.export cannot read the model: {error}")
    try:
        graph, loss = translate(nodes, re.sub(r"\W", "_", arguments.model.partition(":")[2]))
    except NotSupported as error:
        sys.exit(f"from_torch: {error}")
    comment = f"# {arguments.model}, by from_torch.py"
    arguments.output.write_text(text_of(graph, loss, comment), encoding="utf-8")
    mapping = arguments.output.with_suffix(".map.json")
    mapping.write_text(map_of(graph, loss), encoding="utf-8")
    deck = arguments.output.with_suffix(".yaml")
    if not deck.exists():
        deck.write_text(deck_of(graph, loss, arguments.output.name), encoding="utf-8")
    report(graph, loss, nodes, arguments.output)
    print(f"{deck}: trains it: hidup train {deck} --cluster CLUSTER")


def report(graph, loss, nodes, output):
    used = graph.used(loss)
    held = {piece.base.name for tensor in used for piece in tensor.pieces}
    left = [name for name in (node.value.name for node in nodes if node.op == "parameter")
            if name not in held]
    print(f"{output}: {sum(not t.pieces and t.operation != 'input' for t in used)} "
          f"operations, {sum(t.elements for t in used if t.pieces):,} parameters")
    if left:
        print(f"not used by the loss: {', '.join(left)}")


if __name__ == "__main__":
    main()
