"""Exchange of parameters' values between PyTorch and hidup. This reads a trained model into PyTorch:

    mapping = json.load(open("model.map.json"))
    with h5py.File("out/model.ckpt/step-00001000.ckpt.h5") as file:
        values = {name: file["parameters"][name][()] for name in mapping}
    to_torch(values, mapping, {name: p.detach().numpy() for name, p in model.named_parameters()})
"""

import json

import numpy


def map_of(graph, loss):
    """Returns JSON: for every parameter of the graph its shape, and its pieces, stacked along an axis if
    there are several. A piece is the part of a parameter of PyTorch that torch.as_strided(values, sizes,
    strides, offset) gives."""
    parameters = {}
    for tensor in graph.used(loss):
        if tensor.pieces:
            parameters[tensor.name] = {
                "shape": tensor.shape, "axis": tensor.axis,
                "pieces": [_piece(piece) for piece in tensor.pieces]}
    lines = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in parameters.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _piece(view):
    atoms = view.layout.atoms
    return {"parameter": view.base.name, "sizes": [extent for extent, _ in atoms],
            "strides": [stride for _, stride in atoms], "offset": view.layout.offset}


def from_torch(values, mapping):
    """Returns arrays by hidup's names. values: contiguous arrays by PyTorch's names."""
    return {name: numpy.stack([_part(values, piece).reshape(_piece_shape(entry))
                               for piece in entry["pieces"]],
                              entry["axis"]).reshape(entry["shape"])
            for name, entry in mapping.items()}


def to_torch(values, mapping, targets):
    """Writes arrays by hidup's names into contiguous arrays by PyTorch's names."""
    for name, entry in mapping.items():
        pieces = numpy.asarray(values[name])
        if len(entry["pieces"]) > 1:
            pieces = numpy.moveaxis(pieces, entry["axis"], 0)
        else:
            pieces = pieces[None]
        for piece, value in zip(entry["pieces"], pieces):
            _part(targets, piece)[...] = value.reshape(piece["sizes"])


def _part(values, piece):
    flat = values[piece["parameter"]].reshape(-1)  # a view of a contiguous array
    return numpy.lib.stride_tricks.as_strided(
        flat[piece["offset"]:], piece["sizes"],
        [stride * flat.itemsize for stride in piece["strides"]])


def _piece_shape(entry):
    shape = list(entry["shape"])
    if len(entry["pieces"]) > 1:
        del shape[entry["axis"]]
    return shape
