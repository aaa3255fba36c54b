#!/usr/bin/env python3
"""Compares the machine instructions of the kernels with kernels/instructions.txt.

    instructions.py FOLDER [--write]

FOLDER has the object files of a build for sm_90. Needs NVIDIA's cuobjdump and nvdisasm in PATH (pip
install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm). Exits with 1 where a kernel has 10 % more
instructions than the table says, in all or for an element, or is missing in it; with 77 where there is
no disassembler or another compiler made the table. --write makes the table anew.
"""

import collections
import math
import pathlib
import re
import sys

import compiled_kernels
import sass

TABLE = compiled_kernels.TABLE.with_name("instructions.txt")
MORE = 1.1
LITTLE = 3  # instructions: one more of few is over 10 %
COLUMNS = ("threads", "all", "element", "tensor", "global", "wide", "shared", "special", "double",
           "integer")
HEADING = """# What the kernels are in machine code. threads: of a block. all: instructions. The others are for an
# element of what the loops go over (in attention for a score), on the shortest way that has all accesses
# of 16 bytes and all products of tensor cores: element: instructions; tensor: of tensor cores; global:
# accesses to global memory; wide: the share of them that has 16 bytes a lane; shared: accesses to shared
# memory; special: special functions; double: in double precision; integer: of integers. -: no such loop.
# Made by: tests/runs/cuda_build.sh --table
"""

# Products of tiles per score, by kernel.
ATTENTION = {"attention_tensor: forward_kernel": 2,
             "attention_tensor_backward: query_gradient_kernel": 3,
             "attention_tensor_backward: key_value_gradient_kernel": 4}
FLOPS = 16 * 8 * 16 * 2  # of a tensor instruction of a warp
OTHER_LOOPS = re.compile(r"attention: \w*(forward|gradient)_kernel")  # most are over shared memory

CLASSES = {
    "tensor": lambda one: one.name in sass.TENSOR,
    "global": lambda one: one.name in sass.GLOBAL,
    "shared": lambda one: one.name in ("LDS", "STS", "LDSM", "STSM", "ATOMS"),
    "special": lambda one: one.name == "MUFU",
    "double": lambda one: one.name in ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"),
    "integer": lambda one: re.match(r"U?(IADD3?|IMAD|LEA|LOP3?|SHF|ISETP|IMNMX|IABS|SEL|PRMT|POPC|"
                                    r"FLO|LOP32I|SHL|SHR|VIADD)$", one.name) is not None,
}


def signature(body):
    """Returns the counts of instructions that move or compute elements, divided by the unrolling, and the
    unrolling: a loop's unrolled form and its remainder form have equal counts."""
    memory = collections.Counter(f"{one.name}.{one.bits}" for one in body
                                 if one.name in sass.GLOBAL or one.name == "MUFU")
    wide = [count for access, count in memory.items() if access.endswith(".128")]
    floats = collections.Counter(one.name for one in body
                                 if one.name in ("FADD", "FMUL", "FFMA", "FMNMX", "DADD", "DFMA"))
    unrolled = math.gcd(*wide) if wide else math.gcd(*memory.values(), *floats.values())
    if unrolled == 1:  # some floating instructions have no copy
        unrolled = math.gcd(*memory.values())
    return frozenset((name, count // unrolled)
                     for name, count in (memory + floats).items()), unrolled


def working_loops(code):
    """Returns [(instructions of an iteration, unrolling)] of the innermost loops that load from global
    memory, each in its most unrolled form. If some loops access 16 bytes, the others handle unaligned data
    and are left out. Without such loops the whole kernel counts as an iteration."""
    loading = [loop for loop in code.loops if loop.loads]
    loops = [loop.usual() for loop in loading if not any(map(loop.holds, loading))]
    if code.has_wide:
        loops = [body for body in loops if any(one.is_wide for one in body)] or [code.usual()]
    forms = {}
    for body in loops:
        of_source, unrolled = signature(body)
        if unrolled >= forms.get(of_source, ([], 0))[1]:
            forms[of_source] = (body, unrolled)
    return list(forms.values())


def bits_of_element(name):
    """Returns the bits of the elements that are accessed in 16 bytes: those of the name's type, unless the
    kernel goes over f32 and has other values in 16 bits. Kernels without a type use f32."""
    is_f32 = re.match(r"(adam|convert): ", name) or not re.search(r"Float16|unsigned short", name)
    return 32 if is_f32 else 16


def per_element(name, code):
    """Returns [(weight, instruction)] for an element; empty without a loop."""
    counted = []
    for body, unrolled in working_loops(code):
        bits = bits_of_element(name)
        moved = [one.bits for one in body if one.name in sass.GLOBAL and one.bits >= bits]
        vector = 128 if any(one.is_wide for one in body) else min(moved, default=bits)
        counted += [(bits / (unrolled * vector), one) for one in body]
    return counted


def per_score(products, head, code):
    """Returns [(weight, instruction)] for a score. An inner loop computes a strip of the outer one's tile."""
    def has_products(body):
        return sum(one.name in sass.TENSOR for one in body)

    loops = [loop for loop in code.loops if has_products(loop.body)]
    inner = sass.usual_way(min(loops, key=lambda loop: len(loop.body)).body)
    outer = sass.usual_way(max(loops, key=lambda loop: len(loop.body)).body)
    scores = has_products(inner) * FLOPS / (products * 2 * head) / 32  # of a lane
    tile = 16 * (64 if head <= 64 else 32) / 32
    rest = [one for one in outer if one.address not in {of_inner.address for of_inner in inner}]
    return [(1.0 / scores, one) for one in inner] + [(1.0 / tile, one) for one in rest]


def row_of(name, code):
    kernel, _, arguments = name.partition("<")
    if kernel in ATTENTION:
        counted = per_score(ATTENTION[kernel], int(arguments.split(",")[1].strip(" >")), code)
    else:
        counted = [] if OTHER_LOOPS.match(name) else per_element(name, code)
    threads = code.threads or 1024
    if not counted:
        return (threads, len(code.instructions), *[None] * (len(COLUMNS) - 2))
    sums = {column: sum(weight for weight, one in counted if belongs(one))
            for column, belongs in CLASSES.items()}
    wide = sum(weight for weight, one in counted if one.is_wide)
    sums["wide"] = wide / sums["global"] if sums["global"] else 0.0
    sums["element"] = sum(weight for weight, _ in counted)
    return (threads, len(code.instructions), *(round(sums[c], 2) for c in COLUMNS[2:]))


def kernels_of(folder):
    found = {}
    for file in sorted(pathlib.Path(folder).rglob("*.cu.o")):
        code = sass.read(file)
        for name, of_kernel in zip(compiled_kernels.readable(code), code.values()):
            found[name] = row_of(name, of_kernel)
    return found


def shown(value):
    return "-" if value is None else f"{value:.2f}" if value % 1 else f"{value:.0f}"


def write(kernels):
    width = max(map(len, kernels))
    lines = [f"{'kernel':<{width}} " + " ".join(f"{column:>8}" for column in COLUMNS)]
    for name in sorted(kernels):
        lines.append(f"{name:<{width}} "
                     + " ".join(f"{shown(value):>8}" for value in kernels[name]))
    TABLE.write_text(f"{HEADING}# {compiled_kernels.version()}, sm_90\n" + "\n".join(lines) + "\n",
                     encoding="utf-8")


def read():
    """Returns {kernel: {column: number, None where the table has none}} of the table."""
    found = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        name, *values = line.rsplit(None, len(COLUMNS))
        if not line.startswith("#") and values != list(COLUMNS):
            found[name] = {column: None if value == "-" else float(value)
                           for column, value in zip(COLUMNS, values)}
    return found


def complaints(found, expected):
    for name in sorted(found.keys() - expected.keys()):
        yield f"{name} is not in the table"
    for name in sorted(found.keys() & expected.keys()):
        now = dict(zip(COLUMNS, found[name]))
        for column in ("all", "element"):
            before = expected[name][column]
            if now[column] and before and now[column] > max(MORE * before, before + (
                    LITTLE if column == "all" else 0)):
                what = "instructions" if column == "all" else "instructions an element"
                yield f"{name} has {shown(now[column])} {what}, {before:g} before"


def main():
    folder, *options = sys.argv[1:]
    if sass.disassembler() is None:
        print("instructions.py: skipped: no cuobjdump and nvdisasm in PATH")
        return compiled_kernels.SKIPPED
    compiler = compiled_kernels.compiler_of(TABLE) if TABLE.exists() else ""
    if options != ["--write"] and compiler != compiled_kernels.version():
        print(f"instructions.py: skipped: {TABLE.name} is of {compiler}, this is "
              f"{compiled_kernels.version()}")
        return compiled_kernels.SKIPPED
    found = kernels_of(folder)
    if options == ["--write"]:
        write(found)
        return 0
    wrong = list(complaints(found, read()))
    for line in wrong:
        print(f"instructions.py: {line}", file=sys.stderr)
    print(f"instructions.py: {len(found)} kernels as {TABLE.name} has them" if not wrong else
          "instructions.py: make the table anew where that is meant")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
