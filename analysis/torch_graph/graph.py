"""A graph file of hidup under construction."""

import dataclasses
import math
import re
import typing


@dataclasses.dataclass(eq=False)
class Tensor:
    """An input, a parameter, or an operation's result; inputs and operations are hidup's
    (src/graph/operation.cpp)."""
    name: str
    shape: tuple
    operation: str  # or "input" or "parameter"
    inputs: tuple = ()
    attributes: dict = dataclasses.field(default_factory=dict)
    dtype: str = "f32"
    weight: typing.Any = None  # of a matmul or bias: its View of a parameter of PyTorch
    pieces: tuple = ()         # of a parameter: Views of those of PyTorch ...
    axis: int = 0              # ... that are stacked along this dimension, where there are several

    @property
    def elements(self):
        return math.prod(self.shape)


class Graph:

    def __init__(self, name):
        self.name = name
        self.tensors = []
        self._parameters = {}

    def add(self, name, shape, operation, inputs=(), **fields):
        """Adds a tensor. Names need not differ: name_tensors() makes them so."""
        tensor = Tensor(name, tuple(shape), operation, tuple(inputs), **fields)
        self.tensors.append(tensor)
        return tensor

    def parameter(self, shape, pieces, axis=0):
        """Returns the parameter of Views of parameters of PyTorch; the same views give the same one."""
        key = (tuple(shape), tuple(pieces), axis)
        if key not in self._parameters:
            name = _common_name([piece.base.name for piece in pieces])
            self._parameters[key] = self.add(name, shape, "parameter", pieces=tuple(pieces),
                                             axis=axis)
        return self._parameters[key]

    def used(self, loss):
        """Returns inputs, parameters and ordered operations that the loss depends on."""
        needed, queue = {loss}, [loss]
        while queue:
            for tensor in queue.pop().inputs:
                if tensor not in needed:
                    needed.add(tensor)
                    queue.append(tensor)
        kinds = {"input": 0, "parameter": 1}
        return sorted((tensor for tensor in self.tensors if tensor in needed),
                      key=lambda tensor: kinds.get(tensor.operation, 2))


def name_tensors(tensors):
    """Makes the names unique and legal in a graph file."""
    taken = set()
    for tensor in tensors:
        name = wanted = re.sub(r"[^A-Za-z0-9_.]", "_", tensor.name)
        number = 1
        while name in taken:
            number += 1
            name = f"{wanted}_{number}"
        taken.add(name)
        tensor.name = name


def _common_name(names):
    """Returns qkv.weight, in the module that they share, for query.weight, key.weight and value.weight."""
    parts = [name.split(".") for name in dict.fromkeys(names)]
    return ".".join(words[0] if len(set(words)) == 1 else "".join(word[0] for word in words)
                    for words in zip(*parts))


def start_of(parameter):
    """Returns a parameter's initialization: that of its pieces, or normal with their mean variance."""
    starts = [piece.base.start for piece in parameter.pieces]
    if all(start == starts[0] for start in starts):
        return starts[0]
    if {start[0] for start in starts} == {"uniform"}:
        return "uniform", max(start[1] for start in starts)
    factors = {"zeros": 0.0, "ones": 1.0, "uniform": 1 / 3, "normal": 1.0}
    variances = [factors[start[0]] * (start[1] if len(start) > 1 else 1.0)**2 for start in starts]
    return "normal", math.sqrt(sum(variances) / len(variances))


def decays(parameter):
    """Returns True for matrices and tables, which decay; False for biases, norms and single vectors."""
    return sum(extent > 1 for extent in parameter.pieces[0].base.shape) > 1


def _statement(tensor):
    kind = f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"
    if tensor.operation == "input":
        return f"input {tensor.name} : {kind}"
    if tensor.operation == "parameter":
        start, *scale = start_of(tensor)
        origin = " ".join(dict.fromkeys(piece.base.name for piece in tensor.pieces))
        return (f"parameter {tensor.name} : {kind} = {start}"
                + "".join(f"({value:.7g})" for value in scale)
                + (" decay" if decays(tensor) else "")
                + (f"  # {origin}" if origin != tensor.name else ""))
    inputs = ", ".join(source.name for source in tensor.inputs)
    attributes = ", ".join(f"{name}={value:.9g}" for name, value in tensor.attributes.items())
    return (f"{tensor.name} = {tensor.operation}({inputs})"
            + (f" {{{attributes}}}" if attributes else "") + f" : {kind}")


def text_of(graph, loss, comment=""):
    """Returns the graph file, without tensors that the loss does not need."""
    parts = [comment.splitlines(), [f"graph {graph.name}"], [], [], []]
    for tensor in graph.used(loss):
        parts[{"input": 2, "parameter": 3}.get(tensor.operation, 4)].append(_statement(tensor))
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"
