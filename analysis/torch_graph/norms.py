"""RMS norm among ATen nodes: as one node, or by its formula, x * rsqrt(mean(x^2) + epsilon) * weight."""

import dataclasses
import typing

import numpy

from .nodes import Unsupported
from .values import FUNCTIONS, Elementwise, View
from .views import COPIES
from .weights import is_parameter

_PROBES = numpy.geomspace(1e-3, 1e3, 101)


@dataclasses.dataclass(frozen=True)
class MeanSquare:
    """A function of the mean square of the rows of a view."""
    view: View
    function: typing.Callable


@dataclasses.dataclass(frozen=True)
class Normalized:
    """Rows over the root of their mean square, without a weight yet."""
    view: View
    epsilon: float


KINDS = (MeanSquare, Normalized)


def handler(op, arguments):
    """Returns the function for nodes that take one of KINDS; None for others."""
    kinds = {type(value) for value in arguments.values()}
    if MeanSquare in kinds:
        return _of_mean_square
    return _weighted if Normalized in kinds and op == "mul" else None


def copied(translator, value):
    if translator.node.op not in COPIES:
        raise Unsupported("another shape within an RMS norm")
    return value


def mean(translator, x, dim=None, keepdim=False, dtype=None):
    last = len(x.view.shape) - 1 if isinstance(x, Elementwise) else None
    if last is None or [at % (last + 1) for at in dim or []] != [last] or not keepdim or (
            not numpy.allclose(x.function(_PROBES), _PROBES**2)):
        raise Unsupported("a mean other than RMS norm's: of squares, over the last dimension, with "
                          "keepdim=True")
    return MeanSquare(x.view, lambda square: square)


def _of_mean_square(translator, **arguments):
    op = translator.node.op
    others = [value for value in arguments.values() if isinstance(value, (View, Elementwise))]
    (of,) = [value for value in arguments.values() if isinstance(value, MeanSquare)]
    if others:
        if others != [of.view] or op not in ("mul", "div") or (
                op == "div" and arguments["other"] is not of):
            raise Unsupported("RMS norm divides what its mean square is of")
        return Normalized(of.view, _epsilon(of.function, -1 if op == "mul" else 1))
    if op not in FUNCTIONS:
        raise Unsupported("of a mean square")
    function = FUNCTIONS[op]
    numbers = {name: value for name, value in arguments.items() if value is not None}
    return MeanSquare(of.view, lambda square: function(**{
        name: of.function(square) if value is of else value for name, value in numbers.items()}))


def _epsilon(function, sign):
    """Returns the number added to the mean square before the root (sign 1) or its inverse (-1)."""
    found = function(_PROBES)
    epsilon = float(function(numpy.float64(1e-12)) ** (2 * sign)) - 1e-12
    if epsilon < 0 or not numpy.allclose(found, numpy.sqrt(_PROBES + epsilon) ** sign, rtol=1e-6):
        raise Unsupported("RMS norm divides by the root of the mean square and an epsilon")
    return epsilon


def _weighted(translator, x, other):
    of, weight = (x, other) if isinstance(x, Normalized) else (other, x)
    if not is_parameter(weight):
        raise Unsupported("an RMS norm without a weight")
    return rms_norm(translator, of.view, weight.shape, weight, of.epsilon)


def rms_norm(translator, input, normalized_shape, weight=None, eps=None):
    (width,) = normalized_shape if len(normalized_shape) == 1 else (None,)
    if width is None or not is_parameter(weight):
        raise Unsupported("hidup's rms_norm is over one dimension, with a weight")
    base, _ = translator.rows(input, width)
    if base.shape[-1] != width:
        raise Unsupported(f"of {width} values, which hidup has in two dimensions")
    parameter = translator.graph.parameter([width], [weight])
    epsilon = float(numpy.finfo(numpy.float32).eps) if eps is None else eps
    y = translator.add("rms_norm", base.shape, [base, parameter], attributes={"epsilon": epsilon})
    return View(y, translator.activation(input).layout)
