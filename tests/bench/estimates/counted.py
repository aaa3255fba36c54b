"""kernels/counted.txt: each launch function's memory accesses, as the stand-in counted them."""

import pathlib
import re

TABLE = pathlib.Path(__file__).resolve().parents[3] / "kernels" / "counted.txt"
NAMES = {"slice": "copy_strided", "adam": "adam_update", "adam_rounded": "adam_update"}  # others'


def read():
    """Returns {function: {column: figure}}, in bf16 where there is such a row; of several sizes the first
    with the fewest sectors a request. 0 where nothing was counted; empty without a table. Rows of packed
    buffers are left out, for the estimates are of steps without them."""
    found = {}
    lines = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else ["kernel reason"]
    head, *rows = [line for line in lines if not line.startswith("#")]
    columns = head.split()[1:-1]
    form = re.compile(r"(\w+)(?: (\w+))?.*?" + len(columns) * r" +(\d+\.\d\d|-)" + r"(?:  .*)?$")
    for row in rows:
        if re.match(r"\w+ \w+ packed ", row):
            continue
        function, dtype, *figures = form.match(row).groups()
        values = {column: 0.0 if figure == "-" else float(figure)
                  for column, figure in zip(columns, figures)}
        rank = (dtype != "bf16", values["spread"])
        found[function] = min(found.get(function, (rank, values)), (rank, values),
                              key=lambda one: one[0])
    return {function: values for function, (_, values) in found.items()}


def of(table, operation):
    """Returns the figures, or None where the operation was not counted."""
    name = NAMES.get(operation, operation)
    return table.get(name, table.get(f"{name}_forward"))
