"""ATen nodes to operations of hidup.

A node's result is a View (values.py) of a tensor of hidup. Views, permutations, splits and copies only
change its layout; operations of hidup accept views that cover a tensor in any order of its rows, so
models give the same graph if the batch is not first, or is flattened with the sequence.
"""

import inspect
import math

import numpy

from . import attention, images, losses, norms
from .graph import Graph, name_tensors
from .layout import Layout, LayoutError
from .nodes import NotSupported, Ref, TorchParameter, Unsupported
from .values import FUNCTIONS, OPERATIONS, Elementwise, View, is_gelu_erf, recognize
from .views import LAYOUTS
from .weights import in_memory_order, is_parameter, matmul_weight, rows_of_table, stem_of, trailing


def translate(nodes, name):
    """Returns the Graph and its loss. The last node is the output: a loss, or logits, whose cross entropy
    then is the loss. Throws NotSupported."""
    return Translator(Graph(name)).run(nodes)


class Translator:

    def __init__(self, graph):
        self.graph = graph
        self.results = {}
        self.node = None
        self.firsts = {}  # by the tensor whose first positions they are

    def run(self, nodes):
        try:
            for self.node in nodes:
                self.results[self.node.name] = self.evaluate(self.node)
            loss = self.loss_of(self.results[self.node.name])
            self.check_sharing(loss)
        except (Unsupported, LayoutError) as reason:
            raise NotSupported(self.node, str(reason)) from reason
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise NotSupported(self.node, f"used in an unexpected way ({error})") from error
        name_tensors(self.graph.used(loss))
        return self.graph, loss

    def evaluate(self, node):
        if node.op == "input":
            return images.input_of(self.graph, node) if node.value == "images" else View.of(
                self.graph.add(node.value, node.shape, "input", dtype="i32"))
        if node.op in ("parameter", "constant"):
            return View.of(node.value) if node.op == "parameter" else node.value
        arguments = {name: self.resolve(value) for name, value in node.arguments.items()}
        if node.op in LAYOUTS:
            return self.view(arguments.pop("x"), **arguments)
        handler = (attention.handler(node.op, arguments) or norms.handler(node.op, arguments)
                   or HANDLERS.get(node.op))
        if handler is None and node.op in FUNCTIONS:
            return self.elementwise(**arguments)
        if handler is None:
            raise Unsupported("hidup has no operation for it")
        known = inspect.signature(handler).parameters
        if any(known[name].kind == inspect.Parameter.VAR_KEYWORD for name in known):
            return handler(self, **arguments)
        unknown = [name for name, value in arguments.items()
                   if name not in known and value is not None]
        if unknown:
            raise Unsupported(f"the argument {', '.join(unknown)}")
        return handler(self, **{name: arguments[name] for name in arguments if name in known})

    def resolve(self, value):
        if isinstance(value, Ref):
            return self.results[value.name]
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        return value

    # Layouts and values.

    def view(self, value, **arguments):
        change = LAYOUTS[self.node.op]
        if isinstance(value, attention.KINDS):
            return attention.viewed(value, lambda layout: change(layout, self.node.shape,
                                                                 **arguments))
        if isinstance(value, norms.KINDS):
            return norms.copied(self, value)
        if is_operation(value):
            value = self.activation(value)
        function = value.function if isinstance(value, Elementwise) else None
        view = self.activation(value) if function is None else value.view
        changed = change(view.layout, self.node.shape, **arguments)

        def made(layout):
            part = View(view.base, layout)
            return part if function is None else Elementwise(part, function, value.node)

        return [made(part) for part in changed] if isinstance(changed, list) else made(changed)

    def activation(self, value):
        """Returns a View of the value; an elementwise function becomes an operation."""
        if isinstance(value, View):
            return value
        if not isinstance(value, Elementwise):
            raise Unsupported(f"{describe(value)} where an activation or a parameter is expected")
        if value.result is None:
            try:
                value.result = self.recognized(value)
            except Unsupported as reason:
                raise NotSupported(value.node, str(reason)) from reason
        return value.result

    def recognized(self, value):
        found = recognize(value.function)
        if found is None:
            raise Unsupported(
                "hidup's GELU is the tanh form (approximate=\"tanh\", in transformers gelu_new or "
                "gelu_pytorch_tanh), this is that with the error function"
                if is_gelu_erf(value.function) else
                f"a function of one tensor that is none of {', '.join(OPERATIONS)}")
        operation, factor = found
        base = value.view.base
        if operation != "scale":
            return self.unary(value.view, operation, value.node.module)
        if factor == 1:
            return value.view
        if base.operation != "embedding":
            raise Unsupported(f"a tensor times {factor:g}; hidup multiplies only the rows of an "
                              "embedding with a number")
        factor *= base.attributes.get("scale", 1)
        scaled = self.graph.add(base.name, base.shape, "embedding", base.inputs,
                                attributes={"scale": factor})
        return View(scaled, value.view.layout)

    def elementwise(self, **arguments):
        """Returns a function of one view and numbers."""
        views = {name: value for name, value in arguments.items()
                 if isinstance(value, (View, Elementwise))}
        sources = {value.view if isinstance(value, Elementwise) else value
                   for value in views.values()}
        others = {name: number_of(value) for name, value in arguments.items()
                  if name not in views}
        if len(sources) != 1:
            raise Unsupported("hidup has no such operation on two tensors; it can add two of one "
                              "shape, and a parameter to the last dimensions")
        function = FUNCTIONS[self.node.op]
        others = {name: value for name, value in others.items() if value is not None}
        if others.keys() - inspect.signature(function).parameters:
            raise Unsupported(f"with {others}")

        def composed(x):
            own = {name: value.function(x) if isinstance(value, Elementwise) else x
                   for name, value in views.items()}
            return function(**own, **others)

        (source,) = sources
        if isinstance(source.base, TorchParameter):
            raise Unsupported("a function of a parameter")
        return Elementwise(source, composed, self.node)

    def whole(self, value):
        """Returns the value as a View with every element of its tensor."""
        view = self.activation(value)
        if isinstance(view.base, TorchParameter):
            raise Unsupported(f"the parameter {view.base.name} where an activation is expected")
        if view.layout.covers(view.base.elements):
            return view
        start = Layout.contiguous(view.base.shape).select(1, 0)
        if len(view.base.shape) != 3 or (view.layout.atoms, view.layout.offset) != (start.atoms, 0):
            raise Unsupported("takes a part of a tensor; hidup takes the first position only")
        shape = (view.base.shape[0], view.base.shape[2])
        if view.base not in self.firsts:
            self.firsts[view.base] = self.add("first", shape, [view.base])
        return View(self.firsts[view.base], Layout.contiguous(view.shape))

    def rows(self, value, width):
        """Returns the tensor and the layout of its rows, for operations on the last dimension."""
        view = self.whole(value)
        if not Layout(view.layout.dims[-1:]).in_order(width):
            raise Unsupported(f"the last dimension, of {width}, is not the last of the tensor")
        return view.base, Layout(view.layout.dims[:-1]).scale(1, width)

    def unary(self, value, operation, module=None, **attributes):
        view = self.whole(value)
        y = self.add(operation, view.base.shape, [view.base], module, attributes=attributes)
        return View(y, view.layout)

    def add(self, operation, shape, inputs, module=None, **fields):
        """Adds a tensor named after the called module."""
        module = self.node.module if module is None else module
        named = operation in OWNERS or operation in module.rpartition(".")[2]
        name = module if named and module else f"{module}.{operation}".strip(".")
        return self.graph.add(name, shape, operation, inputs, **fields)

    # Operations.

    def linear(self, input, weight, bias=None):
        """Returns x [.., k] times a parameter [n, k]."""
        weight = trained(weight)
        y = self.product(input, View(weight.base, weight.layout.transpose(0, 1)))
        return y if bias is None else self.sum(y, bias)

    def product(self, x, weight):
        """Returns x [.., k] times a parameter [k, n]."""
        width, columns = weight.shape
        x, weight = in_memory_order(self.whole(x), weight)
        base, rows = self.rows(x, width)
        contract = trailing(base.shape, width)
        matrix, attributes = matmul_weight(weight, base.shape[-contract:], (columns,))
        shape = (*base.shape[:-contract], columns)
        parameter = self.graph.parameter(*matrix)
        stem = stem_of(parameter.name)
        name = stem if stem.startswith(self.node.module) else self.node.module or "product"
        y = self.graph.add(name, shape, "matmul", [base, parameter], attributes=attributes,
                           weight=weight)
        return View(y, Layout((*rows.scale(columns, 1).dims, *Layout.contiguous([columns]).dims)))

    def matmul(self, x, other):
        if not is_parameter(other):
            raise Unsupported("a product of two activations that is not attention's")
        *leading, width, columns = other.shape
        if math.prod(leading) != 1:
            raise Unsupported("a product with several matrices")
        weight = View(other.base, other.layout.reshape((width, columns)))
        y = self.product(x, weight)
        return View(y.base, y.layout.reshape(self.node.shape))

    def addmm(self, x, mat1, mat2, beta=1, alpha=1):
        if beta != 1 or alpha != 1:
            raise Unsupported("beta and alpha")
        return self.sum(self.product(mat1, trained(mat2)), x)

    def sum(self, x, other, alpha=1):
        """Adds two activations, an activation and a parameter, or returns an elementwise function."""
        for a, b in ((x, other), (other, x)):
            if isinstance(b, numpy.ndarray) and b.ndim and alpha == 1:
                return self.add_constant(a, b)
            if is_parameter(b) and alpha == 1:
                return self.bias(a, b)
        if alpha != 1 or not (is_operation(x) and is_operation(other)):
            return self.elementwise(x=x, other=other, alpha=alpha)
        a, b = self.whole(x), self.whole(other)
        if a.layout != b.layout or a.base.shape != b.base.shape:
            raise Unsupported(f"adds {list(a.shape)} and {list(b.shape)}; hidup adds two "
                              "activations of one shape and order")
        y = self.add("add", a.base.shape, [a.base, b.base])
        return View(y, a.layout)

    def bias(self, x, parameter):
        """Adds a parameter to the last dimensions."""
        view = self.whole(x)
        spread = parameter.layout.expand(view.shape)
        kept = [at for at, extent in enumerate(view.shape) if spread.dims[at] != ((extent, 0),)]
        count = math.prod(view.shape[at] for at in kept)
        if not Layout(tuple(view.layout.dims[at] for at in kept)).in_order(count):
            raise Unsupported("adds a parameter to other than the last dimensions of the tensor")
        shape = view.base.shape[-trailing(view.base.shape, count):]
        piece = View(parameter.base, Layout(tuple(spread.dims[at] for at in kept), spread.offset))
        bias = self.graph.parameter(shape, [piece])
        name = f"{view.base.name}.biased" if bias.name.endswith("bias") else stem_of(bias.name)
        y = self.graph.add(name, view.base.shape, "bias", [view.base, bias], weight=piece)
        return View(y, view.layout)

    def add_constant(self, x, constant):
        """Adds zeros, or the sinusoids of `positions`."""
        view = self.whole(x)
        constant = numpy.broadcast_to(constant, view.shape)
        if not constant.any():
            return view
        shape = view.base.shape
        if len(shape) == 3 and shape[2] % 2 == 0:
            table = sinusoids(shape[1], shape[2]).reshape(-1)
            if numpy.allclose(constant, table[view.layout.indices() % table.size], atol=1e-4):
                return self.unary(view, "positions")
        raise Unsupported("adds a constant that is not the sinusoids of Vaswani et al. 2017")

    def embedding(self, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
        if scale_grad_by_freq or sparse:
            raise Unsupported("scale_grad_by_freq and sparse")
        if isinstance(indices, numpy.ndarray):
            return View(trained(weight).base, rows_of_table(weight.layout, indices))
        if padding_idx >= 0:
            raise Unsupported(f"padding_idx={padding_idx} keeps a row as it is; hidup trains all: "
                              "give None (in transformers pad_token_id=None)")
        view = self.whole(indices)
        columns = trained(weight).shape[1]
        table = self.graph.parameter(weight.shape, [weight])
        y = self.add("embedding", (*view.base.shape, columns), [view.base, table])
        return View(y, Layout((*view.layout.scale(columns, 1).dims,
                               *Layout.contiguous([columns]).dims)))

    def layer_norm(self, input, normalized_shape, weight=None, bias=None, eps=1e-5,
                   cudnn_enable=False):
        (width,) = normalized_shape if len(normalized_shape) == 1 else (None,)
        if width is None or weight is None or bias is None:
            raise Unsupported("hidup's layer_norm is over one dimension, with weight and bias")
        base, _ = self.rows(input, width)
        if base.shape[-1] != width:
            raise Unsupported(f"of {width} values, which hidup has in two dimensions")
        parameters = [self.graph.parameter([width], [trained(part)]) for part in (weight, bias)]
        y = self.add("layer_norm", base.shape, [base, *parameters], attributes={"epsilon": eps})
        return View(y, self.activation(input).layout)

    def dropout(self, input, p, train):
        if p == 0 or not train:
            return input
        return self.unary(input, "dropout", p=p)

    def native_dropout(self, input, p, train):
        return [self.dropout(input, p, train)]


    def loss_of(self, value):
        view = self.whole(value)
        if view.base.operation == "cross_entropy":
            return view.base
        targets = self.graph.add("targets", view.shape[:-1], "input", dtype="i32")
        if len(view.shape) < 2 or view.layout != Layout.contiguous(view.base.shape):
            raise Unsupported(f"the output {list(view.shape)} is neither a loss nor logits "
                              "[.., classes]")
        return self.graph.add("loss", (), "cross_entropy", [view.base, targets])

    def check_sharing(self, loss):
        """Refuses a value of PyTorch in two parameters of hidup: training would make them differ."""
        holders = {}
        for tensor in self.graph.used(loss):
            for piece in tensor.pieces:
                holders.setdefault(piece.base, []).append((tensor, piece))
        for base, held in holders.items():
            if len(held) == 1:
                continue
            times = numpy.zeros(math.prod(base.shape), dtype=int)
            for _, piece in held:
                times[piece.layout.indices().ravel()] += 1
            if times.max() > 1:
                names = ", ".join(dict.fromkeys(str(list(tensor.shape)) for tensor, _ in held))
                raise Unsupported(f"the parameter {base.name} is used in several places (of {names}) "
                                  "that hidup would hold and train apart")


def is_operation(value):
    """Returns True for a View, or an elementwise function that can become one."""
    if isinstance(value, Elementwise):
        found = recognize(value.function)
        return found is not None and (found[0] != "scale" or found[1] == 1 or getattr(
            value.view.base, "operation", None) == "embedding")
    return isinstance(value, View)


def trained(value):
    if not is_parameter(value):
        raise Unsupported(f"{describe(value)} where a parameter that is trained is expected")
    return value


def number_of(value):
    if isinstance(value, numpy.ndarray) and value.ndim == 0:
        return value.item()
    if value is None or isinstance(value, (int, float, str, bool)):
        return value
    raise Unsupported(f"{describe(value)} where a number is expected")


def describe(value):
    names = {numpy.ndarray: "a constant tensor", list: "several tensors", View: "an activation",
             Elementwise: "an activation", losses.LogSoftmax: "log_softmax",
             **dict.fromkeys(attention.KINDS, "attention's scores"),
             **dict.fromkeys(norms.KINDS, "a part of an RMS norm")}
    return names.get(type(value), f"{value!r}")


def sinusoids(sequence, hidden):
    """Returns sinusoids as kernels/positions.h defines them."""
    angle = numpy.arange(sequence)[:, None] / 10000**(numpy.arange(0, hidden, 2) / hidden)
    return numpy.stack([numpy.sin(angle), numpy.cos(angle)], axis=-1)


OWNERS = ("layer_norm", "rms_norm", "embedding", "attention")


HANDLERS = {
    "add": Translator.sum,
    "addmm": Translator.addmm,
    "cat": images.prepend,
    "conv2d": images.patches,
    "cross_entropy_loss": losses.cross_entropy,
    "dropout": Translator.dropout,
    "embedding": Translator.embedding,
    "getitem": lambda self, x, index: x[index],
    "layer_norm": Translator.layer_norm,
    "linear": Translator.linear,
    "log_softmax": losses.log_softmax,
    "matmul": Translator.matmul,
    "mean": norms.mean,
    **dict.fromkeys(("mm", "bmm"), lambda self, x, mat2: self.matmul(x, mat2)),
    "native_dropout": Translator.native_dropout,
    "nll_loss": losses.nll_loss,
    "nll_loss_nd": losses.nll_loss,
    "rms_norm": norms.rms_norm,
}
