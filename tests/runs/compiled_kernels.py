#!/usr/bin/env python3
"""Compares the compiled CUDA kernels with kernels/compiled.txt: registers, spilled bytes, and declared
shared memory.

    compiled_kernels.py LOG [--write]

LOG is the output of a build with -Xptxas=-v. Exits with 1 where a kernel spills more than the table
says, takes 10 % more registers or is missing in it; with 77 where another compiler made the table.
--write makes the table anew.
"""

import pathlib
import re
import subprocess
import sys

TABLE = pathlib.Path(__file__).resolve().parents[2] / "kernels" / "compiled.txt"
MORE = 1.1  # registers
COLUMNS = ("registers", "spilled", "shared")
HEADING = """# What CUDA's compiler makes of each kernel: registers a thread, bytes that it spills (stores), bytes
# of shared memory that it declares. Made by: tests/runs/cuda_build.sh --table
"""
SKIPPED = 77


def version():
    """Returns the compiler's version."""
    text = subprocess.run(["nvcc", "--version"], check=True, capture_output=True, text=True).stdout
    return "nvcc " + re.search(r"V([\d.]+)", text)[1]


def readable(names):
    """Returns names with their source, since kernels of two sources may have one name."""
    text = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True,
                          text=True).stdout
    found = [re.search(r"GLOBAL__N__[0-9a-f]+_\d+_(\w+?)_cuda_cu_", name) for name in names]
    sources = [source[1] if source else "common" for source in found]
    return [f"{source}: {short(name)}" for source, name in zip(sources, text.splitlines())]


def short(name):
    """Removes the namespaces and the parameters, which follow from the name."""
    name = re.sub(r"hidup::(kernels::)?(\(anonymous namespace\)::)?", "", name)
    name = re.sub(r"^void ", "", name)
    depth = 0
    for at, letter in enumerate(name):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0:
            return name[:at]
    return name


def kernels_of(log):
    """Returns {name: (registers, spilled, shared)} from ptxas' lines in a build's output."""
    entry = re.compile(r"Compiling entry function '(\w+)' for 'sm_\w+'.*?"
                       r"(\d+) bytes spill stores.*?Used (\d+) registers([^\n]*)", re.DOTALL)
    found = {}
    for mangled, spilled, registers, rest in entry.findall(log):
        shared = re.search(r"(\d+) bytes smem", rest)
        found[mangled] = (int(registers), int(spilled), int(shared[1]) if shared else 0)
    return dict(zip(readable(found), found.values()))


def write(kernels):
    width = max(map(len, kernels))
    lines = [f"{'kernel':<{width}} " + " ".join(f"{column:>9}" for column in COLUMNS)]
    for name in sorted(kernels):
        lines.append(f"{name:<{width}} " + " ".join(f"{value:>9}" for value in kernels[name]))
    TABLE.write_text(f"{HEADING}# {version()}, sm_90\n" + "\n".join(lines) + "\n",
                     encoding="utf-8")


def compiler_of(table):
    """Returns the compiler that made a table."""
    lines = table.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("# nvcc")][0][2:].partition(",")[0]


def read():
    """Returns {kernel: (registers, spilled, shared)} of the table."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [line.rsplit(None, len(COLUMNS)) for line in lines if not line.startswith("#")][1:]
    return {row[0]: tuple(map(int, row[1:])) for row in rows}


def complaints(found, expected):
    for name in sorted(found.keys() - expected.keys()):
        yield f"{name} is not in the table"
    for name in sorted(found.keys() & expected.keys()):
        registers, spilled, _ = found[name]
        before, spilled_before, _ = expected[name]
        if spilled > spilled_before:
            yield f"{name} spills {spilled} bytes, {spilled_before} before"
        if registers > MORE * before:
            yield f"{name} takes {registers} registers, {before} before"


def main():
    log, *options = sys.argv[1:]
    found = kernels_of(pathlib.Path(log).read_text(encoding="utf-8", errors="replace"))
    if options == ["--write"]:
        write(found)
        return 0
    compiler = compiler_of(TABLE)
    if compiler != version():
        print(f"compiled_kernels.py: skipped: {TABLE.name} is of {compiler}, this is {version()}")
        return SKIPPED
    wrong = list(complaints(found, read()))
    for line in wrong:
        print(f"compiled_kernels.py: {line}", file=sys.stderr)
    print(f"compiled_kernels.py: {len(found)} kernels as {TABLE.name} has them" if not wrong else
          "compiled_kernels.py: make the table anew where that is meant")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
