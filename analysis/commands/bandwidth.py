"""Draws the time of a step over the bandwidth of the links, a line per system, and marks where two
lines cross: there the faster system changes. Prints these crossings.

FOLDER: of jobs/experiments/run.py bandwidth or bandwidth-hosts; several have panels of their own.
Between two bandwidths lines are straight in the logarithms of both, and so are their crossings found.
"""

import itertools
import math

from analysis import experiments, figures

HELP = "an experiment's step time over the links' bandwidth, by system, with crossings"

CROSSING = {"marker": "o", "s": 150, "facecolors": "none", "edgecolors": "black", "zorder": 5,
            "linewidths": 1.2}


def crossings(one, other):
    """[(x, y)] where two curves (xs, ys) cross, between points that both have."""
    shared = sorted(set(one[0]) & set(other[0]))
    first, second = (dict(zip(*curve)) for curve in (one, other))
    found = []
    for left, right in itertools.pairwise(shared):
        gaps = [math.log(first[x] / second[x]) for x in (left, right)]
        if gaps[0] * gaps[1] < 0:
            part = gaps[0] / (gaps[0] - gaps[1])
            x, y = (math.exp((1 - part) * math.log(a) + part * math.log(b))
                    for a, b in ((left, right), (first[left], first[right])))
            found.append((x, y))
    return found


def draw_panel(axes, title, points, known):
    figures.logarithmic(axes, "y")
    curves = {name: experiments.curve(own, lambda point: point["rate"])
              for name, own in experiments.groups(points, lambda point: point["system"]).items()}
    for name, curve in curves.items():
        label, style = known[name]
        axes.plot(*curve, label=label, **style)
    told = " ".join(title.split("\n"))
    for one, other in itertools.combinations(curves, 2):
        for x, y in crossings(curves[one], curves[other]):
            axes.scatter([x], [y], **CROSSING)
            print(f"{told}: {known[one][0]} and {known[other][0]} cross at {x:.2g} Gbit/s")
    experiments.ticks(axes, [point["rate"] for point in points])
    axes.set_title(title, fontsize=11)
    axes.set_xlabel("bandwidth (Gbit/s)")


def draw(points):
    titled = experiments.panels(points)
    known = experiments.systems(points)
    columns = min(2, len(titled))
    rows = -(-len(titled) // columns)
    figure, axes = figures.new(rows=rows, columns=columns, squeeze=False,
                               size=(3.1 + 4 * columns, 0.4 + 3.8 * rows))
    for panel, (title, some) in zip(axes.flat, titled):
        draw_panel(panel, title, some, known)
    for panel in axes.flat[len(titled):]:
        panel.set_axis_off()
    for row in axes:
        row[0].set_ylabel("time per step (s)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    mark = axes[0][-1].scatter([], [], **CROSSING)
    order = [labels.index(label) for label, _ in known.values() if label in labels]
    figures.legend(axes[0][-1], handles=[handles[i] for i in order] + [mark],
                   labels=[labels[i] for i in order] + ["two lines cross"])
    return figure


def add_arguments(parser):
    experiments.add_folders(parser)
    figures.add_out(parser)


def run(arguments):
    points = experiments.only(experiments.read(arguments.folders), "rate", "system")
    figures.save(draw(points), experiments.out_of(arguments, "bandwidth"))
