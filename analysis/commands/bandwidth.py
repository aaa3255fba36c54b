"""Draws the time of a step over the bandwidth of the links, a line per system, and marks where two
lines cross: there the faster system changes. Prints these crossings, the times, and how many times
that of the searched strategy they are.

FOLDER: of jobs/experiments/run.py bandwidth or bandwidth-hosts; several have panels of their own.
Between two bandwidths lines are straight in the logarithms of both, and so are their crossings found.
"""

import itertools
import math

from matplotlib.lines import Line2D

from analysis import experiments, figures

HELP = "an experiment's step time over the links' bandwidth, by system, with crossings"

SAME = 1e-3  # times that differ by less are the same: from there lines cross by rounding only
CROSSING = {"marker": "o", "linestyle": "none", "markersize": 12, "markerfacecolor": "none",
            "markeredgecolor": "black", "zorder": 5}


def crossings(one, other):
    """[(x, y)] where two curves (xs, ys) cross, between points that both have."""
    shared = sorted(set(one[0]) & set(other[0]))
    first, second = (dict(zip(*curve)) for curve in (one, other))
    found = []
    for left, right in itertools.pairwise(shared):
        gaps = [math.log(first[x] / second[x]) for x in (left, right)]
        if gaps[0] * gaps[1] < 0 and min(map(abs, gaps)) > SAME:
            part = gaps[0] / (gaps[0] - gaps[1])
            x, y = (math.exp((1 - part) * math.log(a) + part * math.log(b))
                    for a, b in ((left, right), (first[left], first[right])))
            found.append((x, y))
    return found


def draw(points):
    known = experiments.systems(points)

    def draw_panel(axes, title, some):
        experiments.tell_gains(title, some, known, lambda point: point["rate"])
        figures.logarithmic(axes, "y")
        curves = {name: experiments.curve(own, lambda point: point["rate"])
                  for name, own in experiments.groups(some, lambda point: point["system"]).items()}
        for name, curve in curves.items():
            axes.plot(*curve, **known[name][1])
        for one, other in itertools.combinations(curves, 2):
            for x, y in crossings(curves[one], curves[other]):
                axes.plot([x], [y], **CROSSING)
                print(f"  {experiments.short(known[one][0])} and "
                      f"{experiments.short(known[other][0])} cross at {x:.2g} Gbit/s")
        experiments.mark_repeated(axes, some, lambda point: point["rate"])
        experiments.ticks(axes, [point["rate"] for point in some])
        axes.set_xlabel("bandwidth (Gbit/s)")

    mark = Line2D([], [], label="two lines cross", **CROSSING)
    return experiments.draw_panels(experiments.panels(points), draw_panel, "time per step (s)", known,
                                   [mark, experiments.repeated_mark()])


def add_arguments(parser):
    experiments.add_folders(parser)
    figures.add_out(parser)


def run(arguments):
    points = experiments.only(experiments.read(arguments.folders), "rate", "system")
    figures.save(draw(points), experiments.out_of(arguments, "bandwidth"))
