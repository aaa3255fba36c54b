"""kernels/counted.txt: what each launch function does with memory, as the stand-in counted it."""

import pathlib
import re
import typing

TABLE = pathlib.Path(__file__).resolve().parents[3] / "kernels" / "counted.txt"
FIGURE = r" +(\d+\.\d\d|-)"
ROW = re.compile(r"(\w+)(?: (f32|bf16|f16|i32))?(.*?)" + 4 * FIGURE + r"(?:  .*)?$")
# Where it is not the operation's.
NAMES = {"slice": "copy_strided", "adam": "adam_update", "adam_rounded": "adam_update"}


class Counted(typing.NamedTuple):
    read: float  # bytes of all sectors that requests touch, over those of the operands
    written: float
    spread: float  # sectors over those that the bytes of each request would fill
    banks: float  # accesses to shared memory over those without bank conflicts; 0: none


def read():
    """{function: Counted}, of the first row in bf16, else of the first one. Empty where there is no
    table."""
    found = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []:
        match = None if line.startswith("#") else ROW.match(line)
        if match:
            function, dtype, _, *figures = match.groups()
            values = Counted(*(0.0 if figure == "-" else float(figure) for figure in figures))
            found.setdefault((function, dtype == "bf16"), values)
    return {function: found.get((function, True), values)
            for (function, _), values in found.items()}


def of(table, operation):
    """None where it was not counted."""
    name = NAMES.get(operation, operation)
    return table.get(name, table.get(f"{name}_forward"))
