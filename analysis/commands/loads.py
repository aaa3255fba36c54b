"""Writes recorded loads of experts, step by step, as hidup reads them (data.trace, model.moe.load).

FILE is a timing file of a run, or a table (CSV, also .gz) with a line of names and a row per sample and layer:
iter, layer, and the tokens of each expert. The text has a line per layer with experts, and an empty line
behind each sample.
"""

import csv
import gzip

import numpy

from analysis import hidup_timings

HELP = "recorded loads of experts, for data.trace"


def of_table(path):
    """Returns the samples of a table as an array [samples, layers, experts]."""
    opened = gzip.open if path.endswith(".gz") else open
    samples = {}
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        names = next(rows, [])
        if names[:2] != ["iter", "layer"] or len(names) < 3:
            raise OSError(f"{path}:1: expected the names iter, layer and one per expert, found "
                          f"{','.join(names[:3])}")
        for row in rows:
            try:
                sample, layer, *tokens = map(int, row)
            except ValueError:
                sample, tokens = -1, []
            if len(tokens) != len(names) - 2 or min(sample, *tokens) < 0:
                raise OSError(f"{path}:{rows.line_num}: expected {len(names)} whole numbers")
            layers = samples.setdefault(sample, [])
            if layer != len(layers):
                raise OSError(f"{path}:{rows.line_num}: expected layer {len(layers)} of iteration "
                              f"{sample}, found {layer}")
            layers.append(tokens)
    if not samples or len(set(map(len, samples.values()))) > 1:
        raise OSError(f"{path}: expected as many layers in each iteration, and one at least")
    return numpy.array(list(samples.values()))


def of_run(path):
    """Returns the loads of all steps of a run as an array [steps, layers, experts]."""
    with hidup_timings.reading(path) as file:
        if "experts" not in file:
            raise KeyError(f"{path}: the model has no experts")
        loads = hidup_timings.part(path, file, "experts/tokens")[:]
    if not len(loads):
        raise OSError(f"{path}: holds no finished step yet")
    return loads


def add_arguments(parser):
    parser.add_argument("file", metavar="FILE", help="a timing file, or a table of loads")
    parser.add_argument("--out", required=True, metavar="TEXT", help="the file to write")
    parser.add_argument("--every", type=int, default=1, metavar="N",
                        help="take each N-th sample only")


def run(arguments):
    is_table = arguments.file.endswith((".csv", ".csv.gz"))
    loads = (of_table if is_table else of_run)(arguments.file)[::max(1, arguments.every)]
    samples, layers, experts = loads.shape
    with open(arguments.out, "w", encoding="utf-8") as out:
        out.write(f"# tokens of each of {experts} experts in {layers} layer(s), {samples} sample(s)\n")
        for sample in loads:
            out.write("\n".join(" ".join(map(str, layer)) for layer in sample) + "\n\n")
    print(arguments.out)
