"""Attention among ATen nodes: as one node, or as products, mask and softmax.

hidup computes it from one tensor qkv[batch, sequence, 3, heads, head], so the weights of query, key
and value become one parameter, whether PyTorch has them apart, together, or in another order.
"""

import dataclasses
import math

import numpy

from .layout import Layout
from .nodes import Unsupported
from .values import Elementwise, View, recognize
from .weights import is_parameter, matmul_weight, stem_of, trailing

HIDDEN = -1e4  # masks give hidden positions scores of at most this


@dataclasses.dataclass(frozen=True)
class Scores:
    """query [.., sequence, head] times key, transposed."""
    query: View
    key: View
    scale: float
    shape: tuple         # the queries' shape with the keys last
    seen: numpy.ndarray  # true where a query's position sees a key's; broadcast to the shape


    def reshape(self, shape):
        seen = self.seen
        if seen.size > 1:
            seen = numpy.broadcast_to(seen, self.shape).reshape(shape)
        return dataclasses.replace(self, shape=shape, seen=seen)


@dataclasses.dataclass(frozen=True)
class Probabilities:
    scores: Scores

    @property
    def shape(self):
        return self.scores.shape

    def reshape(self, shape):
        return Probabilities(self.scores.reshape(shape))


@dataclasses.dataclass(frozen=True)
class Reordered:
    """Scores or probabilities, permuted; usable once they are in order again."""
    value: object
    layout: Layout


KINDS = (Scores, Probabilities, Reordered)


def viewed(value, change):
    """Applies `change` to the value's layout."""
    if not isinstance(value, Reordered):
        value = Reordered(value, Layout.contiguous(value.shape))
    layout = change(value.layout)
    if layout.in_order(math.prod(value.value.shape)):
        return value.value.reshape(layout.shape)
    return Reordered(value.value, layout)


def handler(op, arguments):
    """Returns the function that translates such a node, or None."""
    for kind in KINDS:
        if any(isinstance(value, kind) for value in arguments.values()):
            found = STEPS.get((kind, op))
            if found is None:
                raise Unsupported("on attention's scores; hidup's attention has a scale, a mask "
                                  "and a softmax")
            return found
    if op in WHOLE:
        return WHOLE[op]
    activations = (View, Elementwise)
    if op in ("matmul", "bmm") and all(isinstance(value, activations) and not is_parameter(value)
                                       for value in arguments.values()):
        return scores
    return None


def fused(translator, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
          scale=None, enable_gqa=False):
    no_dropout(translator, None, dropout_p, True)
    found = scores(translator, query, key, transposed=True)
    factor = 1 / math.sqrt(found.query.shape[-1]) if scale is None else scale
    found = scaled(translator, found, factor)
    if is_causal:
        found = masked(found, numpy.tri(found.query.shape[-2], dtype=bool))
    if attn_mask is not None:
        found = add_mask(translator, found, attn_mask)
    return attend(translator, Probabilities(found), value)


# The steps are functions of the Translator and the node's arguments.

def scores(translator, x=None, other=None, mat2=None, transposed=False):
    query, q_scale = unscaled(translator, x)
    key, k_scale = unscaled(translator, mat2 if other is None else other)
    if not transposed:
        key = View(key.base, key.layout.transpose(-1, -2))
    if is_parameter(query) or is_parameter(key):
        raise Unsupported("attention to a parameter")
    if query.shape != key.shape or len(query.shape) < 3:
        raise Unsupported(f"a product of two activations {list(query.shape)} and "
                          f"{list(key.shape)} that is not that of queries and keys of one sequence")
    return Scores(query, key, q_scale * k_scale, (*query.shape[:-1], key.shape[-2]),
                  numpy.ones((1, 1), dtype=bool))


def unscaled(translator, value):
    """Returns a view, and its factor."""
    if isinstance(value, Elementwise) and value.result is None:
        found = recognize(value.function)
        if found and found[0] == "scale":
            return value.view, found[1]
    return translator.activation(value), 1.0


def scaled(_, x, other):
    return dataclasses.replace(x, scale=x.scale * number(other))


def divided(_, x, other):
    return dataclasses.replace(x, scale=x.scale / number(other))


def number(value):
    if isinstance(value, numpy.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, (int, float)):
        raise Unsupported("attention's scores times other than a number")
    return value


def masked(found, seen):
    return dataclasses.replace(found, seen=found.seen & seen)


def add_mask(_, x, other, alpha=1):
    found, mask = (x, other) if isinstance(x, Scores) else (other, x)
    if not isinstance(mask, numpy.ndarray) or alpha != 1:
        raise Unsupported("a mask that depends on the input; hidup's is causal or none")
    if mask.dtype == bool:
        return masked(found, mask)
    if not ((mask == 0) | (mask <= HIDDEN)).all():
        raise Unsupported("a bias of attention's scores")
    return masked(found, mask == 0)


def fill(_, x, mask, value):
    if number(value) > HIDDEN or not isinstance(mask, numpy.ndarray):
        raise Unsupported("fills in other than a low number by a constant mask")
    return masked(x, ~mask.astype(bool))


def where(translator, condition, x, other):
    if not isinstance(condition, numpy.ndarray):
        raise Unsupported("a mask that depends on the input")
    if isinstance(x, Scores):
        return fill(translator, x, ~condition.astype(bool), other)
    return fill(translator, other, condition, x)


def softmax(translator, x, dim, dtype=None, half_to_float=False):
    if dim % len(x.shape) != len(x.shape) - 1 or x.shape[-1] != x.key.shape[-2]:
        raise Unsupported("softmax over other than the keys")
    return Probabilities(x)


def no_dropout(_, input, p, train):
    if p != 0 and train:
        raise Unsupported(f"dropout of {p:g} within attention, which hidup's has not: set it to 0 "
                          "(attn_pdrop, attention_probs_dropout_prob, self_attn.dropout)")
    return input


def native_no_dropout(translator, input, p, train):
    return [no_dropout(translator, input, p, train)]


def attend(translator, x, other=None, mat2=None):
    """Returns probabilities times values: the operation attention."""
    found = x.scores
    value = translator.activation(mat2 if other is None else other)
    batch, sequence = batch_of(found.query.base), found.query.shape[-2]
    heads = math.prod(found.query.shape[:-2]) // batch
    head = found.query.shape[-1]
    if not math.isclose(found.scale * math.sqrt(head), 1.0, rel_tol=1e-6):
        raise Unsupported(f"scores times {found.scale:.9g}; hidup's are divided by the root of "
                          f"{head}, the head's width")
    extents = (batch, sequence, heads, head)
    qkv = joined(translator, [projection(view, extents) for view in
                              (found.query, found.key, value)], extents)
    shape = (batch, sequence, heads, head)
    y = translator.add("attention", shape, [qkv],
                       attributes={"causal": int(is_causal(found, sequence))})
    layout = Layout.contiguous(shape).permute([0, 2, 1, 3])
    return View(y, layout.reshape(translator.node.shape))


def batch_of(tensor):
    """Returns the batch, which comes first in all tensors of hidup."""
    return tensor.shape[0]


def is_causal(found, sequence):
    seen = numpy.broadcast_to(found.seen, found.shape)
    if seen.all():
        return False
    if (seen.reshape(-1, sequence, sequence) == numpy.tri(sequence, dtype=bool)).all():
        return True
    raise Unsupported("a mask that is neither causal nor empty")


@dataclasses.dataclass(frozen=True)
class Projection:
    """x times a weight, plus a bias: views of parameters [k, heads, head] and [heads, head]."""
    x: object
    summed: tuple  # the dimensions of k
    weight: View
    bias: View


def projection(view, extents):
    """Returns the linear map that gives a query, key or value."""
    batch, sequence, heads, head = extents
    made = view.base
    bias = made.weight if made.operation == "bias" else None
    product = made.inputs[0] if bias else made
    if product.operation != "matmul" or (bias and len(bias.shape) != 1):
        raise Unsupported("queries, keys and values that are not linear maps of one tensor")
    width, count = product.weight.shape
    if view.shape[-2] != sequence or math.prod(view.shape) != math.prod(extents):
        raise Unsupported(f"queries {extents}, but keys or values {list(view.shape)}")
    layout = view.layout.reshape((batch, heads, sequence, head))
    at = Layout(layout.dims[:1] + layout.dims[2:3])
    columns = Layout(layout.dims[1:2] + layout.dims[3:], layout.offset)
    if at != Layout.strided((batch, sequence), (sequence * count, count)) or any(
            stride == 0 for _, stride in columns.atoms):
        raise Unsupported("heads that share keys, or are cut from other than the last dimension")
    x = product.inputs[0]
    return Projection(x, x.shape[-trailing(x.shape, width):],
                      View(product.weight.base, of_columns(product.weight.layout, columns)),
                      bias and View(bias.base, of_columns(bias.layout, columns)))


def of_columns(layout, columns):
    """Splits the last dimension of a parameter's layout as `columns` says."""
    places = Layout(layout.dims[-1:]).indices()[columns.indices()]
    start = int(places.flat[0])
    strides = [int(places.take(1, axis).flat[0]) - start if extent > 1 else 0
               for axis, extent in enumerate(places.shape)]
    part = Layout.strided(places.shape, strides, start)
    if (part.indices() != places).any() or min(strides) < 0:
        raise Unsupported("a weight whose columns are in another order than heads")
    return Layout((*layout.dims[:-1], *part.dims), layout.offset + start)


def joined(translator, parts, extents):
    """Returns one matmul, and one bias, for query, key and value."""
    batch, sequence, heads, head = extents
    first = parts[0]
    if any(part.x is not first.x or (part.bias is None) != (first.bias is None)
           for part in parts):
        raise Unsupported("queries, keys and values of different tensors, or some without a bias")
    shapes = [matmul_weight(part.weight, first.summed, (heads, head)) for part in parts]
    (shape, _), attributes = shapes[0]
    if any(other != attributes for _, other in shapes):
        raise Unsupported("weights of query, key and value that are not stored alike")
    axis = 0 if "transposed" in attributes else len(first.summed)
    weight = translator.graph.parameter((*shape[:axis], 3, *shape[axis:]),
                                        [matrix[1][0] for matrix, _ in shapes], axis)
    columns = (batch, sequence, 3, heads, head)
    name = stem_of(weight.name)
    qkv = translator.graph.add(name, columns, "matmul", [first.x, weight], attributes=attributes)
    if first.bias is None:
        return qkv
    bias = translator.graph.parameter(columns[2:], [part.bias for part in parts])
    return translator.graph.add(name + ".biased", columns, "bias", [qkv, bias])


def biased_scores(translator, x, batch1, batch2, beta=1, alpha=1):
    if beta != 1:
        raise Unsupported("beta")
    return add_mask(translator, scaled(translator, scores(translator, batch1, batch2), alpha), x)


WHOLE = {"baddbmm": biased_scores, "scaled_dot_product_attention": fused}

STEPS = {
    (Scores, "mul"): scaled,
    (Scores, "div"): divided,
    (Scores, "add"): add_mask,
    (Scores, "masked_fill"): fill,
    (Scores, "where"): where,
    (Scores, "softmax"): softmax,
    (Scores, "_softmax"): softmax,
    (Probabilities, "dropout"): no_dropout,
    (Probabilities, "native_dropout"): native_no_dropout,
    (Probabilities, "matmul"): attend,
    (Probabilities, "bmm"): attend,
}
