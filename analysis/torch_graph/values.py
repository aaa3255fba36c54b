"""Results of PyTorch's nodes in the translation. A constant is a numpy array."""

import dataclasses
import math
import typing

import numpy

from .layout import Layout


@dataclasses.dataclass(frozen=True)
class View:
    """Elements of a Tensor of hidup or of a TorchParameter."""
    base: typing.Any
    layout: Layout

    @property
    def shape(self):
        return self.layout.shape

    @staticmethod
    def of(base):
        return View(base, Layout.contiguous(base.shape))


@dataclasses.dataclass(eq=False)
class Elementwise:
    """A function of every element of a view, not yet known to be an operation."""
    view: View
    function: typing.Callable  # of an array
    node: typing.Any           # the last node that it consists of
    result: View = None        # its operation, once there is one


_erf = numpy.vectorize(math.erf)

# Functions of arrays and numbers, with ATen's argument names.
FUNCTIONS = {
    "abs": lambda x: numpy.abs(x),
    "add": lambda x, other, alpha=1: x + alpha * other,
    "clamp_min": lambda x, min: numpy.maximum(x, min),
    "div": lambda x, other: x / other,
    "erf": lambda x: _erf(x),
    "exp": lambda x: numpy.exp(x),
    "gelu": lambda x, approximate: gelu(x) if approximate == "tanh" else gelu_erf(x),
    "mul": lambda x, other: x * other,
    "neg": lambda x: -x,
    "pow": lambda x, exponent: x**exponent,
    "reciprocal": lambda x: 1 / x,
    "relu": lambda x: numpy.maximum(x, 0),
    "rsqrt": lambda x: 1 / numpy.sqrt(x),
    "rsub": lambda x, other, alpha=1: other - alpha * x,
    "sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    "silu": lambda x: x / (1 + numpy.exp(-x)),
    "sqrt": lambda x: numpy.sqrt(x),
    "square": lambda x: x * x,
    "sub": lambda x, other, alpha=1: x - alpha * other,
    "tanh": lambda x: numpy.tanh(x),
}


def gelu(x):
    return 0.5 * x * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


# The functions that are operations of hidup.
OPERATIONS = {"relu": FUNCTIONS["relu"], "gelu": gelu, "silu": FUNCTIONS["silu"]}

_PROBES = numpy.linspace(-9.05, 9.05, 1011)  # without 0, where x / x is undefined


def recognize(function):
    """Returns (operation, None), ("scale", factor) for a multiple of x, or None. It compares values: a
    function of one element is the same operation however it is written."""
    with numpy.errstate(all="ignore"):
        values = numpy.broadcast_to(function(_PROBES), _PROBES.shape)
        for name, known in OPERATIONS.items():
            if numpy.allclose(values, known(_PROBES), rtol=1e-6, atol=1e-9):
                return name, None
        factor = float(values[-1] / _PROBES[-1])
        if numpy.allclose(values, factor * _PROBES, rtol=1e-6, atol=0) and factor != 0:
            return "scale", factor
    return None


def is_gelu_erf(function):
    with numpy.errstate(all="ignore"):
        return numpy.allclose(function(_PROBES), gelu_erf(_PROBES), rtol=1e-6, atol=1e-9)
