"""The estimated time of an instruction, and its bound.

Each limit is the time without any other limit; the longest is the estimate. It excludes launches and
the filling and draining of the GPU.
"""

import math
import typing

import gpu
from operations import operation_of


class Kernel(typing.NamedTuple):
    """A kernel in the committed tables."""
    name: str
    does_most: bool  # of the operation
    is_launched: bool  # for the operation; else a similar kernel of another one
    compiled: tuple  # registers, spilled, shared
    code: dict | None  # columns of instructions.txt; None without a row

    @property
    def warps(self):
        """The warps that a multiprocessor holds."""
        if self.code is None:
            return None
        return gpu.resident_warps(self.compiled[0], int(self.code["threads"]), self.compiled[2])

    def per_element(self, column):
        """Returns a column of instructions.txt; None where it is unknown."""
        return None if self.code is None else self.code[column]


class Limit(typing.NamedTuple):
    seconds: float
    bound: str


class Estimate(typing.NamedTuple):
    floor_s: float
    seconds: float
    bound: str

    @property
    def ratio(self):
        return self.seconds / self.floor_s if self.floor_s > 0 else 1.0


def floor_of(work, is_product):
    seconds = work["bytes"] / gpu.MEMORY
    return max(seconds, work["flops"] / gpu.PRODUCTS) if is_product else seconds


def product_limits(opcode, work):
    *experts, rows, summed, columns = work["sizes"]
    if "backward_input" in opcode:
        summed, columns = columns, summed
    elif "backward_weight" in opcode:
        rows, summed = summed, rows
    share = gpu.used_share(rows, columns, summed, math.prod(experts))
    yield Limit(work["flops"] / (gpu.PRODUCTS * share),
                "flops" if share > 0.995 else f"flops: tiles use {100 * share:.0f} % of their waves")
    yield Limit(work["bytes"] / gpu.MEMORY, "bytes")


def scores_in_tiles(opcode, work):
    """Returns the scores of all visited tiles of 64 x 64; with a causal mask those up to the diagonal."""
    heads, sequence, size = work["sizes"]
    scores = work["flops"] / ((10 if opcode.endswith("backward") else 4) * size)
    tiles = math.ceil(sequence / 64)
    visited = heads * (64 * tiles) ** 2
    causal = scores < 0.75 * heads * sequence ** 2
    return visited * (tiles + 1) / (2 * tiles) if causal else visited


def attention_limits(opcode, kernels, work):
    """Yields the time of products plus that of the instructions between them. FlashAttention-2, with the same
    instructions, was measured at about this sum (306 TFLOP/s for heads of 64 without a mask, where 13.7
    instructions a score, two of them products, give 325), not at the longer of both [FA3]."""
    known = [kernel.code for kernel in kernels if kernel.code and kernel.code["tensor"]]
    tensor = sum(code["tensor"] for code in known)
    others = sum(code["element"] for code in known) - tensor
    products_s = tensor * gpu.TENSOR_FLOPS / gpu.MMA_SYNC
    seconds = products_s + others / gpu.ISSUE
    share = 100 * products_s / seconds if known else 0
    yield Limit(scores_in_tiles(opcode, work) * seconds,
                f"products by mma.sync ({share:.0f} %), then {others:.0f} instructions a score")
    yield Limit(work["bytes"] / gpu.MEMORY, "bytes")


def memory_limits(counted, work):
    """Yields the limits by memory and by the caches' additional accesses. counted: a row of counted.txt or
    None."""
    requested = 1.0 if counted is None else counted["bytes"]  # over the floor
    yield Limit(work["bytes"] / gpu.MEMORY, "bytes")
    yield Limit(work["bytes"] * requested / gpu.CACHE,
                f"caches: {requested:.2f} times the floor's bytes are requested")


def instruction_limits(kernels, elements):
    def an_element(column):
        return sum(kernel.per_element(column) or 0.0 for kernel in kernels if kernel.does_most)

    yield Limit(elements * an_element("element") / gpu.ISSUE,
                f"{an_element('element'):.0f} instructions an element")
    for unit, rate in gpu.UNITS.items():
        yield Limit(elements * an_element(unit) / rate,
                    f"{an_element(unit):.0f} {unit} instructions an element")


def estimate(opcode, work, kernels, counted):
    """Returns the estimate; kernels: those of the operation."""
    _, operation = operation_of(opcode)
    is_attention = "attention" in opcode
    floor_s = floor_of(work, operation.is_product or is_attention)
    if operation.is_product:
        limits = list(product_limits(opcode, work))
    elif is_attention:
        limits = list(attention_limits(opcode, kernels, work))
    else:
        limits = list(memory_limits(counted, work))
        if operation.per_element:
            limits += instruction_limits(kernels, work["bytes"] / operation.per_element)
    longest = max(limits)
    return Estimate(floor_s, max(longest.seconds, floor_s), longest.bound)
