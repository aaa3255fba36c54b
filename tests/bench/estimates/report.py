"""The text of kernels/ESTIMATES.md."""

import compiled_kernels
import counted
import gpu
import instructions
import published
import steps
from model import Kernel
from operations import OPERATIONS, operation_of, pattern_of

HEAD = """# Estimates for one H100
Every time here is est., an estimate, in bf16: **not measured: no GPU was available.** This file is made by
`python3 tests/bench/estimates` from [compiled.txt](compiled.txt) (registers),
[instructions.txt](instructions.txt) (machine code), [counted.txt](counted.txt) (accesses to memory, counted
in the stand-in) and what `hidup explain` lists of a step. [NOTES.md](NOTES.md) says how each kernel is laid
out, and under Next what would be done.

Rates are those that others measured on an H100 SXM: *F* = {products:.0f} TFLOP/s for a large product by cuBLAS
[MAMF]; *B* = {memory:.0f} TB/s, read and written, from memory and {cache:.0f} TB/s from the L1 caches [QuACK];
{mma:.0f} TFLOP/s for `mma.sync` [Hopper]. Its {sms} multiprocessors begin {issue:.1f} x 10^12 instructions of
threads per second at {clock:.2f} GHz. A time is the longest of these, each as if nothing else were in the way:
- bytes / *B*: those of the floor; what is read again comes from caches;
- caches: the bytes of all sectors that requests touch, from the L1 caches; what was not counted counts as the
  floor;
- instructions: those of the kernels' loops for an element, and those of them that need units of their own
  (of residual_norm with those of dropout's kernel, for its shortest way has no dropout);
- flops / *F* of a product, by the share of the tensor cores that its tiles (128 x 256, 256 x 128 or 128 x 128)
  and their last wave use;
- in attention: its products at the rate of `mma.sync`, and then its other instructions, for all tiles that are
  visited. FlashAttention-2 has the same instructions and reached 306 TFLOP/s without a mask, 229 with one (heads
  of 64, 1k) [FA3].

Launches, first and last blocks, and waiting for memory with few warps are not in it, so times are more likely
too short than too long.
"""

KERNELS = """
## Kernels
In bf16, for heads of 64 and rows that a warp does; other variants are in the tables. bytes: of all sectors
that are touched, over those of the operands, each once. sectors: over those that requests would fill.
instructions: for an element, in attention for a score. warps: that a multiprocessor holds, of {warps}. The time
over the floor is that of the worst one in the steps above, est.

"""


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


class Tables:
    """The committed tables of kernels."""

    def __init__(self):
        self._compiled = compiled_kernels.read()
        self._code = instructions.read()
        self._counted = counted.read()

    def kernels_of(self, opcode):
        """Returns the first kernel of each of the operation's patterns."""
        _, operation = operation_of(opcode)
        found = []
        for of, does_most, is_launched in ((operation.kernels, True, True),
                                           (operation.like, True, False),
                                           (operation.few, False, True)):
            for pattern in map(pattern_of, of):
                name = next((name for name in sorted(self._compiled) if pattern.search(name)), None)
                if name is not None:
                    found.append(Kernel(name, does_most, is_launched, self._compiled[name],
                                        self._code.get(name)))
        return found

    def counted_of(self, opcode):
        return counted.of(self._counted, operation_of(opcode)[0])


def of_kernel(kernel):
    """Returns instructions an element, registers, warps."""
    registers, spilled, _ = kernel.compiled
    of_element = kernel.per_element("element")
    return ["-" if of_element is None else f"{of_element:.1f}",
            f"{registers}, {spilled} B spilled" if spilled else str(registers),
            "-" if kernel.warps is None else str(kernel.warps)]


def of_counted(values):
    """Returns bytes over the floor's, and sectors over those that requests need."""
    return ["not counted", ""] if values is None else [
        f"{values['bytes']:.2f}", f"{values['spread']:.2f}"]


def kernel_rows(tables, worst):
    """worst: {operation: its Estimate furthest above its floor in the steps}."""
    for name, operation in OPERATIONS.items():
        found = worst.get(name)
        head = [name, operation.floor]
        middle = of_counted(tables.counted_of(name))
        tail = [f"{found.ratio:.2f}" if found else "in no step", found.bound if found else "",
                published.best(name)]
        if operation.is_product:
            yield [*head, "cuBLASLt's", "", "", "", "", "", *tail]
        for kernel in tables.kernels_of(name):
            yield [*head, f"`{kernel.name}`", *middle, *of_kernel(kernel), *tail]
            head, middle, tail = ["", ""], ["", ""], ["", "", ""]


def milliseconds(seconds):
    return f"{1e3 * seconds:.2f}"


def ratio(seconds, floor_s):
    return f"{seconds / floor_s:.2f}" if floor_s > 0 else "-"


def floor_of(lines):
    return sum(line.floor_s for line in lines)


def step_section(model, all_lines):
    lines = all_lines[model]
    floor_s = floor_of(lines)
    seconds = sum(line.seconds for line in lines)
    launches = sum(line.launches for line in lines)
    rows = [[line.opcode, str(line.count), milliseconds(line.floor_s), milliseconds(line.seconds),
             ratio(line.seconds, line.floor_s), line.worst.bound] for line in lines]
    rows.append(["**all**", str(sum(line.count for line in lines)), f"**{milliseconds(floor_s)}**",
                 f"**{milliseconds(seconds)}**", ratio(seconds, floor_s), ""])
    text = f"\n### {model}, batch {steps.STEPS[model]}\n"
    text += table(["instruction", "in a step", "floor, ms, est.", "ms, est.", "ratio",
                   "bound, of the worst one"], rows)
    text += (f"\n- About {launches} kernels: a microsecond between two of them, on average, would "
             f"add {1e-3 * launches:.1f} ms.\n")
    floors = {of: floor_of(others) for of, others in all_lines.items()}
    for known in published.elsewhere(model, floors):
        text += f"- {known}.\n"
    return text


def above_section(all_lines):
    """Yields the operations furthest above their floors, over all steps."""
    found = {}
    for model, lines in all_lines.items():
        for line in lines:
            found.setdefault(line.opcode, {})[model] = line
    rows = []
    for opcode, of in sorted(found.items(), key=lambda one: -sum(l.above_s for l in one[1].values())):
        furthest = max(of.values(), key=lambda line: line.above_s)
        if furthest.above_s >= 5e-5:
            rows.append([opcode, *(milliseconds(of[model].above_s) if model in of else "-"
                                   for model in all_lines), furthest.worst.bound])
    return table(["instruction", *(f"{model}, ms" for model in all_lines), "why"], rows)


def text(hidup, source):
    tables = Tables()
    all_lines = {}
    worst = {}
    for model in steps.STEPS:
        timeline = steps.listing(hidup, source, model)
        all_lines[model] = steps.lines_of(timeline, tables.kernels_of, tables.counted_of)
        for line in all_lines[model]:
            name, _ = operation_of(line.opcode)
            worst[name] = max(line.worst, worst.get(name, line.worst), key=steps.by_excess)
    parts = [
        HEAD.format(products=gpu.PRODUCTS / 1e12, memory=gpu.MEMORY / 1e12,
                    cache=gpu.CACHE / 1e12, mma=gpu.MMA_SYNC / 1e12, sms=gpu.MULTIPROCESSORS,
                    issue=gpu.ISSUE / 1e12, clock=gpu.CLOCK / 1e9),
        "\n## Furthest above their floors\nMilliseconds of a step above the floors, est., worst first:\n\n",
        above_section(all_lines),
        "\n## Steps\n",
        *(step_section(model, all_lines) for model in all_lines),
        KERNELS.format(warps=gpu.WARPS),
        table(["operation", "floor", "kernel", "bytes", "sectors", "instructions", "registers", "warps",
               "time over floor, est.", "bound", "best known elsewhere"], kernel_rows(tables, worst)),
        "\n## Sources\n",
        *(f"- [{key}] {what}\n" for key, what in published.SOURCES.items())]
    return "".join(parts)
