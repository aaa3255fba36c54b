"""Parts of hidup's operations, in bf16: floors, and the CUDA kernels that compute them.

Kernels are patterns on the names in kernels/compiled.txt; T stands for the element. Patterns that no
name matches are left out.
"""

import re
import typing

ELEMENT = "BFloat16"


class Operation(typing.NamedTuple):
    floor: str  # bytes or flops; n: elements of the largest tensor
    kernels: tuple = ()  # do most of the work
    few: tuple = ()  # add up the former's results, or the like
    per_element: float = 0  # bytes of the floor for each of the n; 0: not by elements
    is_product: bool = False  # by cuBLASLt
    like: tuple = ()  # of another operation, whose loop does a part of this one's work


def pattern_of(kernel):
    return re.compile("^" + re.sub(r"\bT\b", ELEMENT, kernel))


def product(floor="2mnk / F"):
    return Operation(floor, is_product=True)


def elements(read, written, *kernels, few=(), like=()):
    """Returns an operation with these bytes read and written for each of the n."""
    return Operation(f"{read + written}n / B", kernels, few, read + written, like=like)


# Keys are the names of the instructions, or their beginnings.
OPERATIONS = {
    # Products
    "matmul": product(),
    "matmul_bias": product(),
    "matmul_backward_input": product(),
    "matmul_backward_weight": product(),
    "expert_matmul": product("2 x slots x kn / F"),
    "expert_matmul_backward_input": product("2 x slots x kn / F"),
    "expert_matmul_backward_weight": product("2 x slots x kn / F"),
    # Attention, for heads of up to 64 elements
    "attention": Operation("4 x keys x n / F", ("attention_tensor: forward_kernel<T, 64>",)),
    "attention_backward": Operation("10 x keys x n / F", (
        "attention_tensor_backward: query_gradient_kernel<T, 64>",
        "attention_tensor_backward: key_value_gradient_kernel<T, 64>"),
        few=("attention: row_products_kernel<T>",)),
    # Rows that a warp computes
    "layer_norm": elements(2, 2, "layer_norm: forward_kernel<HeldRow<T, 32>, true>"),
    # The shortest path of its loop has no dropout; drawing the mask is as in dropout's kernel.
    "residual_norm": elements(4, 4, "residual_norm: residual_norm_kernel<HeldRow<T, 32>",
                              like=("dropout: whole_kernel<T>",)),
    "layer_norm_backward": elements(
        4, 2, "common: held_backward_kernel<HeldRow<T, 32>, true>",
        few=("common: add_partials_kernel",)),
    "layer_norm_backward_add": elements(
        6, 2, "common: held_backward_kernel<HeldRow<T, 32>, true>",
        few=("common: add_partials_kernel",)),
    "rms_norm": elements(2, 2, "layer_norm: forward_kernel<HeldRow<T, 32>, false>"),
    "rms_norm_backward": elements(
        4, 2, "common: held_backward_kernel<HeldRow<T, 32>, false>",
        few=("common: add_partials_kernel",)),
    "rms_norm_backward_add": elements(
        6, 2, "common: held_backward_kernel<HeldRow<T, 32>, false>",
        few=("common: add_partials_kernel",)),
    "cross_entropy": elements(
        2, 0, "cross_entropy: forward_kernel<T>", few=("cross_entropy: loss_kernel",)),
    "cross_entropy_stats": elements(2, 0, "cross_entropy: stats_kernel<T>"),
    "cross_entropy_merge": Operation("12 x parts x rows / B", ("cross_entropy: merge_kernel",)),
    "cross_entropy_backward": elements(2, 2, "cross_entropy: backward_kernel<T>"),
    "bias_backward": elements(
        2, 0, "bias: partials_kernel<T>", few=("common: add_partials_kernel",)),
    "squared_norm": elements(4, 0, "norm: squares_kernel", few=("norm: total_kernel",)),
    "expert_bias_backward": elements(2, 0, "expert_bias: backward_kernel<T, false>"),
    # Elements
    "add": elements(4, 2, "common: map_kernel<Sum, T>"),
    "relu": elements(2, 2, "activations: map_kernel<Relu, T>"),
    "relu_backward": elements(4, 2, "activations: map_kernel<ReluGradient, T>"),
    "gelu": elements(2, 2, "activations: map_kernel<Gelu, T>"),
    "gelu_backward": elements(4, 2, "activations: map_kernel<GeluGradient, T>"),
    "silu": elements(2, 2, "activations: map_kernel<Silu, T>"),
    "silu_backward": elements(4, 2, "activations: map_kernel<SiluGradient, T>"),
    "swiglu": elements(4, 2, "swiglu: map_kernel<Swiglu, T>"),
    "swiglu_backward": elements(6, 4, "swiglu: swiglu_backward_kernel<T>"),
    "bias": elements(2, 2, "bias: forward_kernel<Vector<T, 8> >"),
    "dropout": elements(2, 2, "dropout: whole_kernel<T>"),
    "positions": elements(2, 2, "positions: positions_kernel<T>"),
    "rotary": elements(2, 2, "rotary: turn_kernel<T>"),
    "convert": elements(4, 2, "convert: convert_kernel<float, T>"),
    "add_parts": Operation("(2 parts + 8 sums) / B", ("add_parts: add_parts_kernel<T, 4>",)),
    "adam": elements(16, 12, "adam: adam_kernel<float>"),
    "adam_rounded": elements(16, 14, "adam: adam_kernel<T>"),
    "clip_scale": Operation("the launch", ("norm: clip_kernel",)),
    "slice": elements(2, 2, "copy_strided: copy_kernel<int4>"),
    "prepend": elements(2, 2, "class_token: prepend_kernel<T>"),
    # Tokens and experts
    "embedding": Operation("(2n + 2 table) / B", ("embedding: forward_kernel<T>",)),
    "embedding_backward": Operation("(2n + 4 table) / B", (
        "embedding: first_kernel", "embedding: next_kernel", "embedding: sum_kernel<T>")),
    "route": Operation("2 x logits / B", (
        "route: choose_kernel<T>", "route: slots_kernel")),
    "gate": Operation("2 x logits / B", ("gate: forward_kernel<T>",)),
    "gate_backward": Operation("4 x logits / B", ("gate: backward_kernel<T>",)),
    "router_sums": Operation("4 x logits / B", (
        "router_losses: lse_kernel<T>", "router_losses: partials_kernel<T>")),
    "router_losses_backward": Operation("6 x logits / B", ("router_losses: backward_kernel<T>",)),
    "expert_counts": Operation("4 x entries / B", ("route: counts_kernel",)),
    "round_counts": elements(4, 4, "route: round_counts_kernel"),
    "expert_load": Operation("4 x entries / B", ("route: load_kernel",)),
    "dispatch": Operation("2 x (tokens + slots) x width / B", (
        "dispatch: find_kernel<false>", "dispatch: dispatch_kernel<T>")),
    "dispatch_backward": Operation("2 x (tokens + slots) x width / B", (
        "dispatch: sum_rows_kernel<T>",)),
    "expert_bias": elements(2, 2, "expert_bias: forward_kernel<T>"),
    "combine": Operation("2 x (tokens + slots) x width / B", ("dispatch: sum_rows_kernel<T>",)),
    "combine_backward": Operation("2 x (tokens + 2 slots) x width / B", (
        "dispatch: find_kernel<false>", "dispatch: combine_backward_kernel<T>")),
}

# Operations with the same parts as another one.
SAME = {
    "residual_rms_norm": "residual_norm",
    "grouped_attention": "attention",
    "grouped_attention_backward": "attention_backward",
    "place": "slice",
}


def operation_of(opcode):
    """Returns the name of an instruction's operation, and its parts."""
    name = SAME.get(opcode, opcode)
    while name not in OPERATIONS:
        name, _, rest = name.rpartition("_")
        if not rest:
            return opcode, Operation("bytes / B")
    return name, OPERATIONS[name]
