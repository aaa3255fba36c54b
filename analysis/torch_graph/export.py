"""Gets the nodes of a model from PyTorch (torch.export). The only file here that needs PyTorch."""

import inspect
import linecache
import os
import re

import numpy
import torch

from .nodes import Node, NotSupported, Ref, TorchParameter


if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):
    raise ImportError(f"PyTorch {torch.__version__} is too old")


class WithOneResult(torch.nn.Module):
    """Returns the loss, or else the logits, where the model returns several results by name or place."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        result = self.model(*inputs)
        for name in ("loss", "logits"):
            if getattr(result, name, None) is not None:
                return getattr(result, name)
        if isinstance(result, (tuple, list)):
            tensors = [item for item in result if isinstance(item, torch.Tensor)]
            return next((item for item in tensors if item.ndim == 0), tensors[0])
        return result


def export(model, shape):
    """Returns nodes of the model, the last one its output. Its first argument is `tokens`, int64 [batch,
    sequence], or `images`, float32 [batch, channels, rows, columns]; the second is `targets`, if forward()
    has an argument of that name. In training mode, if the model is."""
    example = {"tokens": torch.zeros(shape, dtype=torch.int64)} if len(shape) == 2 else {
        "images": torch.zeros(shape)}
    if takes_targets(model):
        example["targets"] = torch.zeros(shape if len(shape) == 2 else shape[:1],
                                         dtype=torch.int64)
    with torch.random.fork_rng():
        program = torch.export.export(WithOneResult(model), tuple(example.values()))
    refuse_without_gradients(program)
    # As few operators as possible are decomposed.
    table = {operator: rule for operator, rule in torch.export.default_decompositions().items()
             if operator in (torch.ops.aten.einsum.default,)}
    return Reader(program.run_decompositions(table), list(example), model).nodes()


def takes_targets(model):
    return "targets" in inspect.signature(model.forward).parameters


def refuse_without_gradients(program):
    """Refuses torch.no_grad() on more than constants: hidup would train its parameters."""
    constants = set()
    for node in program.graph.nodes:
        name = operator_name(node) if node.op == "call_function" else ""
        sources = [source for source in node.all_input_nodes if source.op != "get_attr"]
        if node.op == "placeholder":
            if node.name in program.graph_signature.inputs_to_buffers:
                constants.add(node)
        elif all(source in constants for source in sources):
            constants.add(node)
        elif name == "wrap_with_set_grad_enabled" and not node.args[0]:
            inner = getattr(program.graph_module, node.args[1].target).graph.nodes
            first = next(part for part in inner if part.op == "call_function")
            raise NotSupported(Node(first.name, operator_name(first), source=source_of(first)),
                               "under torch.no_grad(); hidup trains all that the loss needs")


class Reader:

    def __init__(self, program, inputs, model):
        self.program = program
        self.parameters = dict(program.named_parameters())
        # A parameter with several names, such as a tied weight, has its first one.
        self.names = {value.data_ptr(): name for name, value in model.named_parameters()}
        self.inputs = iter(inputs)
        self.constants = {}  # values by node

    def nodes(self):
        graph = self.program.graph_module.graph
        signature = self.program.graph_signature
        if signature.buffers_to_mutate:
            raise SystemExit("the model changes its buffers in forward(): "
                             + ", ".join(signature.buffers_to_mutate.values()))
        output = graph.output_node().args[0][0]
        needed = {output}
        for node in reversed(graph.nodes):
            if node in needed:
                needed.update(node.all_input_nodes)
        found = []
        for node in graph.nodes:
            if node.op == "placeholder":  # read in order, even unused ones
                found.append(self.placeholder(node, signature))
            elif node in needed:
                found.append(self.call(node))
        used = {output} | {source for node in needed if node not in self.constants
                           for source in node.all_input_nodes}
        names = {node.name for node in used}
        return [node for node in found if node.op == "input" or node.name in names]

    def placeholder(self, node, signature):
        shape = tuple(node.meta["val"].shape)
        if node.name in signature.inputs_to_parameters:
            name = signature.inputs_to_parameters[node.name]
            values = self.parameters[name].detach()
            if not self.parameters[name].requires_grad:
                return self.constant(node, values)
            name = self.names[values.data_ptr()]
            parameter = TorchParameter(name, shape, start_of(values, name))
            return Node(node.name, "parameter", shape=shape, value=parameter)
        if node.name in signature.inputs_to_buffers:
            name = signature.inputs_to_buffers[node.name]
            held = self.program.state_dict.get(name, self.program.constants.get(name))
            return self.constant(node, held)
        if node.name in signature.inputs_to_lifted_tensor_constants:
            name = signature.inputs_to_lifted_tensor_constants[node.name]
            return self.constant(node, self.program.constants[name])
        name = next(self.inputs)
        return Node(node.name, "input", shape=shape, value=name)

    def constant(self, node, value):
        self.constants[node] = value
        if not isinstance(value, torch.Tensor):  # several: for getitem
            return Node(node.name, "constant")
        return Node(node.name, "constant", shape=tuple(value.shape), value=as_array(value))

    def call(self, node):
        value = node.meta.get("val")
        shape = tuple(value.shape) if isinstance(value, torch.Tensor) else ()
        modules = list((node.meta.get("nn_module_stack") or {}).values())
        made = Node(node.name, operator_name(node), shape=shape,
                    module=modules[-1][0].removeprefix("model").removeprefix(".")
                    if modules else "", source=source_of(node))
        if any(not isinstance(extent, int) for extent in shape):
            raise NotSupported(made, f"a shape that is not constant: {list(shape)}")
        if self.is_constant(node):
            return self.constant(node, self.compute(node))
        made.arguments = arguments_of(node)
        return made

    def is_constant(self, node):
        random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        return not random and all(source in self.constants for source in node.all_input_nodes)

    def compute(self, node):
        def value_of(item):
            return self.constants[item] if isinstance(item, torch.fx.Node) else item

        with torch.no_grad():
            return node.target(*torch.fx.node.map_arg(node.args, value_of),
                               **torch.fx.node.map_arg(node.kwargs, value_of))


def operator_name(node):
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.name.partition("::")[2]
    return getattr(node.target, "__name__", str(node.target))


def arguments_of(node):
    """Returns arguments by name, with the defaults of ATen's schema."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return {name: plain(value) for name, value in
                zip(("x", "index"), (*node.args, *node.kwargs.values()))}
    found = {}
    for at, argument in enumerate(node.target._schema.arguments):
        if argument.name in ("device", "layout", "pin_memory", "memory_format", "non_blocking",
                             "copy", "generator"):
            continue
        value = argument.default_value if argument.has_default_value() else None
        value = node.args[at] if at < len(node.args) else node.kwargs.get(argument.name, value)
        found["x" if argument.name == "self" else argument.name] = plain(value)
    return found


def plain(value):
    if isinstance(value, torch.fx.Node):
        return Ref(value.name)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def as_array(tensor):
    tensor = tensor.detach().cpu()
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def source_of(node):
    """Returns the innermost line outside PyTorch, as FILE:LINE: TEXT."""
    frames = re.findall(r'File "(.*)", line (\d+)', node.meta.get("stack_trace") or "")
    own = os.path.dirname(torch.__file__)
    theirs = [frame for frame in frames
              if not frame[0].startswith(own) and frame[0] != __file__] or frames
    if not theirs:
        return ""
    file, line = theirs[-1]
    return f"{file}:{line}: {linecache.getline(file, int(line)).strip()}"


def start_of(values, name):
    """Returns zeros, ones, uniform(bound) or normal(deviation), whichever made the values more likely."""
    values = values.double().numpy()
    for kind, value in (("zeros", 0), ("ones", 1)):
        if (values == value).all():
            return (kind,)
    if numpy.isnan(values).any() or (values == values.flat[0]).all():
        raise SystemExit(f"the parameter {name} starts with {values.flat[0]:g} everywhere; hidup "
                         "has zeros, ones, uniform and normal")
    bound, deviation = float(abs(values).max()), float(numpy.sqrt((values**2).mean()))
    # Logarithms of the densities, per value; both scales are the likeliest ones.
    uniform = -numpy.log(2 * bound)
    normal = -numpy.log(deviation) - numpy.log(2 * numpy.pi * numpy.e) / 2
    return ("uniform", bound) if uniform > normal else ("normal", deviation)
