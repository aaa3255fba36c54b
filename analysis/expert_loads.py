"""The load of the experts in long runs."""

import numpy

from analysis import hidup_timings


def read(path, bins=400):
    """Reads the load of the experts step by step, without holding all of it in memory.

    Returns a dictionary of arrays: step [n]; tokens, dropped and imbalance [n, layers], the last one
    the greatest load of a layer's experts over their mean (NaN where there is none); and, over
    stretches of equally many steps, load [at most bins, layers, experts], the mean load over the
    mean of the layer's experts, with the stretches' first steps, load_step. Raises KeyError if the
    model has no experts.
    """
    with hidup_timings.reading(path) as file:
        if "experts" not in file:
            raise KeyError(f"{path}: the model has no experts")
        tokens, dropped = (hidup_timings.part(path, file, f"experts/{name}")
                           for name in ("tokens", "dropped"))
        steps = hidup_timings.part(path, file, "iterations/step")[:]
        rows = min(len(steps), len(tokens), len(dropped))
        stretch = max(1, -(-rows // bins))
        parts = {name: [] for name in ("tokens", "dropped", "imbalance", "load")}
        for begin in range(0, rows, stretch):
            some = slice(begin, min(rows, begin + stretch))
            chosen = tokens[some]
            parts["tokens"].append(chosen.sum(axis=2))
            parts["dropped"].append(dropped[some].sum(axis=2))
            with numpy.errstate(invalid="ignore", divide="ignore"):
                parts["imbalance"].append(chosen.max(axis=2) / chosen.mean(axis=2))
                mean = chosen.mean(axis=0)
                parts["load"].append((mean / mean.mean(axis=1, keepdims=True))[None])
    none = numpy.empty((0, *tokens.shape[1:2]))
    arrays = {name: numpy.concatenate(values) if values else none for name, values in parts.items()}
    return {"step": steps[:rows], "load_step": steps[:rows:stretch], **arrays}
