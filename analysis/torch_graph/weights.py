"""Parameters of PyTorch as those of operations of hidup."""

import math

import numpy

from .layout import Layout
from .nodes import TorchParameter, Unsupported
from .values import View


def is_parameter(value):
    return isinstance(value, View) and isinstance(value.base, TorchParameter)


def stem_of(name):
    """Returns the name without "weight"."""
    return name.removesuffix("weight").rstrip("._")


def trailing(shape, count):
    """Returns the number of last dimensions that have `count` elements."""
    for dims in range(1, len(shape) + 1):
        if math.prod(shape[-dims:]) == count:
            return dims
    raise Unsupported(f"{count} values are not the last dimensions of {list(shape)}")


def matmul_weight(weight, summed, columns):
    """Returns a View [k, n, ..] of a parameter for graph.parameter(), in the order of its memory, and the
    attributes of the matmul."""
    attributes = {"contract": len(summed)} if len(summed) > 1 else {}
    first, *others = weight.layout.dims
    steps = [stride for dim in others for _, stride in dim]
    if first and steps and first[-1][1] < min(steps):
        layout = weight.layout.permute([*range(1, len(weight.shape)), 0])
        return ((*columns, *summed), [View(weight.base, layout)]), {**attributes, "transposed": 1}
    return ((*summed, *columns), [weight]), attributes


def in_memory_order(x, weight):
    """Returns x [.., k] and a weight [k, n] whose k have x's order in memory."""
    atoms = x.layout.dims[-1]
    order = sorted(range(len(atoms)), key=lambda at: -atoms[at][1])
    split = weight.layout.reshape([*(extent for extent, _ in atoms), *weight.shape[1:]])
    lead, rest = split.dims[:len(atoms)], split.dims[len(atoms):]
    columns = Layout((tuple(atoms[at] for at in order),)).atoms
    summed = Layout(tuple(lead[at] for at in order)).atoms
    return (View(x.base, Layout((*x.layout.dims[:-1], columns), x.layout.offset)),
            View(weight.base, Layout((summed, *rest), weight.layout.offset)))


def rows_of_table(table, indices):
    """Returns the layout of rows of a table whose numbers are evenly spaced along every dimension."""
    strides = [int(indices.take(1, axis)[(0,) * (indices.ndim - 1)] - indices.flat[0])
               if extent > 1 else 0 for axis, extent in enumerate(indices.shape)]
    even = sum(numpy.arange(extent).reshape([-1 if at == axis else 1
                                             for at in range(indices.ndim)]) * stride
               for axis, (extent, stride) in enumerate(zip(indices.shape, strides)))
    start = int(indices.flat[0])
    if (indices != even + start).any() or min(strides, default=0) < 0 or start < 0:
        raise Unsupported("constant row numbers that are not evenly spaced")
    (row,) = table.dims[0]
    columns = Layout(table.dims[1:], table.offset + start * row[1])
    places = Layout.strided(indices.shape, [stride * row[1] for stride in strides])
    return Layout((*places.dims, *columns.dims), columns.offset)
