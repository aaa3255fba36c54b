"""Parts of models of images: patches, and a class token before them."""

import math

from .layout import Layout
from .nodes import Unsupported
from .values import View
from .weights import is_parameter

CHANNELS, SIDE, PATCH = 3, 32, 4  # hidup's images (data.kind: images)


def input_of(graph, node):
    """Returns a view of hidup's input: patches row by row, each by channel, row and column."""
    batch = node.shape[0]
    across, values = SIDE // PATCH, CHANNELS * PATCH**2
    tensor = graph.add("images", (batch, across**2, values), "input")
    apart = Layout.contiguous((batch, across, across, CHANNELS, PATCH, PATCH))
    return View(tensor, apart.permute([0, 3, 1, 4, 2, 5]).reshape(node.shape))


def patches(translator, input, weight, bias=None, stride=(1,), padding=(0,), dilation=(1,),
            groups=1):
    """Translates a convolution without gaps or overlaps: a linear map of patches."""
    view = translator.whole(input)
    if not is_parameter(weight) or len(view.shape) != 4:
        raise Unsupported("a convolution of other than images with a parameter")
    columns, channels, *size = weight.shape
    batch, _, height, width = view.shape
    if list(stride) != size or any(padding) or groups != 1 or any(
            step != 1 for step in dilation) or height % size[0] or width % size[1]:
        raise Unsupported("a convolution; hidup has that of patches only: stride as the kernel, "
                          "no padding, dilation or groups")
    down, across = height // size[0], width // size[1]
    apart = view.layout.reshape((batch, channels, down, size[0], across, size[1]))
    rows = apart.permute([0, 2, 4, 1, 3, 5]).reshape(
        (batch, down, across, channels * math.prod(size)))
    matrix = View(weight.base, weight.layout.reshape((columns, channels * math.prod(size))))
    y = translator.linear(View(view.base, rows), matrix, bias)
    return View(y.base, y.layout.permute([0, 3, 1, 2]))


def prepend(translator, tensors, dim=0):
    """Puts a parameter before the first position of every sequence."""
    tensors = [tensor for tensor in tensors if getattr(tensor, "size", 1)]  # drops empty caches of keys
    if len(tensors) == 1:
        return tensors[0]
    if len(tensors) != 2 or not is_parameter(tensors[0]) or is_parameter(tensors[1]):
        raise Unsupported("joins tensors; hidup puts one parameter before a sequence")
    token, x = tensors[0], translator.whole(tensors[1])
    batch, sequence, width = x.base.shape if len(x.base.shape) == 3 else (0, 0, 0)
    if (dim % len(x.shape) != 1 or x.shape != x.base.shape or token.shape != (batch, 1, width)
            or not x.layout.in_order(x.base.elements)
            or batch > 1 and token.layout.dims[0] != ((batch, 0),)):
        raise Unsupported("joins other than one parameter and [batch, sequence, width] along the "
                          "sequence")
    single = View(token.base, token.layout.select(0, 0).select(0, 0))
    y = translator.add("prepend", (batch, sequence + 1, width),
                       [x.base, translator.graph.parameter([width], [single])])
    return View.of(y)
