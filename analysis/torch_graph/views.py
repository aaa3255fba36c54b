"""ATen nodes that give a part or another shape of a tensor, as changes of a Layout."""

import numpy

from .nodes import Unsupported

# Functions of a Layout, of PyTorch's shape, and of the node's arguments by name.

def _reshape(layout, shape, **_):
    return layout.reshape(shape)


def _same(layout, shape, dtype=None, **_):
    if dtype not in (None, "float32", "int64", "int32"):
        raise Unsupported(f"a change to {dtype}: the precision of a run is model.precision")
    return layout


def _slice(layout, shape, dim=0, start=None, end=None, step=1):
    if step != 1:
        raise Unsupported("a step in a slice")
    start = 0 if start is None else start
    start += layout.shape[dim] if start < 0 else 0
    return layout.slice(dim, min(start, layout.shape[dim]), shape[dim])


def _split(layout, shape, sizes, dim=0):
    starts = numpy.cumsum([0, *sizes])
    return [layout.slice(dim, int(start), size) for start, size in zip(starts, sizes)]


def _split_equal(layout, shape, split_size, dim=0):
    extent = layout.shape[dim]
    return _split(layout, shape, [min(split_size, extent - at)
                                  for at in range(0, extent, split_size)], dim)


def _unbind(layout, shape, dim=0):
    return [layout.select(dim % len(layout.dims), at) for at in range(layout.shape[dim])]


def _swap(layout, shape, dim0=0, dim1=1):
    return layout.transpose(dim0, dim1)


COPIES = ("alias", "clone", "contiguous", "to", "_to_copy", "type_as")

LAYOUTS = {
    **dict.fromkeys(("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze",
                     "unsqueeze", "view_as", "reshape_as"), _reshape),
    **dict.fromkeys(COPIES, _same),
    **dict.fromkeys(("expand", "expand_as"), lambda layout, shape, **_: layout.expand(shape)),
    **dict.fromkeys(("transpose", "t", "swapaxes"), _swap),
    "permute": lambda layout, shape, dims: layout.permute([at % len(dims) for at in dims]),
    "select": lambda layout, shape, dim, index: layout.select(
        dim % len(layout.dims), index % layout.shape[dim]),
    "slice": _slice,
    "split": _split_equal,
    "split_with_sizes": lambda layout, shape, split_sizes, dim=0: _split(layout, shape,
                                                                         split_sizes, dim),
    "chunk": lambda layout, shape, chunks, dim=0: _split_equal(
        layout, shape, -(-layout.shape[dim] // chunks), dim),
    "unbind": _unbind,
}
