"""A PyTorch model as plain data: its ATen nodes, parameters and constants."""

import dataclasses
import json
import typing

import numpy


@dataclasses.dataclass(frozen=True)
class Ref:
    """The result of another node, among a node's arguments."""
    name: str


@dataclasses.dataclass
class Node:
    """op: an ATen operator's name without its overload, or input, parameter, constant or getitem.
    arguments: by their names in ATen's schema, defaults included; ATen's `self` is called x."""
    name: str
    op: str
    arguments: dict = dataclasses.field(default_factory=dict)
    shape: tuple = ()
    module: str = ""  # path of the called nn.Module
    source: str = ""  # FILE:LINE: TEXT of its source line
    value: typing.Any = None  # of a constant: an array; of a parameter: a TorchParameter


@dataclasses.dataclass(frozen=True)
class TorchParameter:
    name: str
    shape: tuple
    start: tuple  # as in a graph file: (kind,) or (kind, scale)


class Unsupported(Exception):
    """The reason why the present node cannot be computed."""


class NotSupported(Exception):
    """A node that hidup cannot compute."""

    def __init__(self, node, reason):
        place = "".join(f"\n    {line}" for line in
                        (node.source, f"in module {node.module}" if node.module else "") if line)
        super().__init__(f"{node.name} ({node.op}): {reason}{place}")


# JSON of a model's nodes, so that tests need no PyTorch.

def _encode(value):
    if isinstance(value, Ref):
        return {"ref": value.name}
    if isinstance(value, TorchParameter):
        return {"name": value.name, "shape": value.shape, "start": value.start}
    if isinstance(value, numpy.ndarray):
        return {"dtype": str(value.dtype), "array": value.tolist()}
    raise TypeError(f"{type(value).__name__} in a node")


def _decode(data):
    if data.keys() == {"ref"}:
        return Ref(data["ref"])
    if data.keys() == {"dtype", "array"}:
        return numpy.array(data["array"], dtype=data["dtype"])
    if data.keys() == {"name", "shape", "start"}:
        return TorchParameter(data["name"], tuple(data["shape"]), tuple(data["start"]))
    return data


def dump(nodes, file):
    """Writes a node per line."""
    fields = [field.name for field in dataclasses.fields(Node)]
    lines = [json.dumps({name: getattr(node, name) for name in fields
                         if getattr(node, name) not in ("", None)}
                        if not isinstance(node.value, numpy.ndarray) else
                        {"name": node.name, "op": node.op, "shape": node.shape,
                         "value": node.value}, default=_encode) for node in nodes]
    file.write("[\n" + ",\n".join(lines) + "\n]\n")


def load(file):
    nodes = [Node(**fields) for fields in json.load(file, object_hook=_decode)]
    for node in nodes:
        node.shape = tuple(node.shape)
    return nodes
