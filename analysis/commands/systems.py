"""Draws where the time of a step goes in the runs of an experiment: a bar per run, as `breakdown`
does of single files, and prints a table.

FOLDER: of jobs/experiments/run.py breakdown, one-machine, unequal, interference or halved-batch. What
is predicted, measured and emulated has rows of its own, and so have one axis and two.
"""

from analysis import experiments, facts, figures
from analysis.commands import breakdown

HELP = "where the time of a step goes in the runs of an experiment"

SHORT = {"dp, nothing overlapped": "dp in turn"}


def group_of(point):
    """What the bars of a group share: the model, the network, and how fast the devices are."""
    network = point["at"].get("network")
    if point["rate"]:
        network = f"{point['rate']:g} Gbit/s"
    return ", ".join(text for text in (point["at"].get("model"), network, point["at"].get("speeds")) if text)


def bar_name(point):
    label = SHORT.get(point["label"], experiments.short(point["label"]))
    shown = [label] if label else []
    overlap, parts = point["at"].get("overlap"), point["at"].get("microbatches")
    shown += [{"on": "at once", "off": "in turn"}[overlap]] if overlap else []
    shown += [f"{parts} part{'s' if parts > 1 else ''}"] if parts else []
    return "\n".join(shown)


def position(known, point):
    """Systems in the order of all figures, then the rest of `for`."""
    return ([*known].index(point["system"]), str(point["at"].get("overlap")),
            point["at"].get("microbatches", 0))


def draw_row(axes, title, points, known):
    print(title)
    at, ticks = 0.0, {}
    fastest_first = sorted(points, key=lambda point: -(point["rate"] or float("inf")))
    for group, own in experiments.groups(fastest_first, group_of).items():
        begin = at
        for point in sorted(own, key=lambda point: position(known, point)):
            ticks[at] = bar_name(point)
            tell(group, point)
            if not point["infeasible"]:
                breakdown.draw_bar(axes, at, breakdown.parts(point),
                                   point["how"] == experiments.PREDICTED)
            at += 0.62
        axes.text((begin + at - 0.62) / 2, 1.0, group, ha="center", va="bottom",
                  transform=axes.get_xaxis_transform(), fontsize=10)
        at += 0.5
    axes.set_xticks(list(ticks), list(ticks.values()), fontsize=8, rotation=50, ha="right",
                    rotation_mode="anchor")
    axes.set_xlim(-0.5, at - 0.62)
    axes.set_ylim(0, 1.12 * axes.dataLim.ymax)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel("time per step (ms)")
    axes.set_title(title, fontsize=11, pad=20)


def tell(group, point):
    name = f"  {group}, {' '.join(bar_name(point).split(chr(10)))}"
    if point["infeasible"]:
        print(f"{name}: {point['infeasible'].splitlines()[0]}")
        return
    overlap = point["overlap"]
    print(f"{name}: wall {facts.seconds(point['wall_s'])}, compute "
          f"{facts.seconds(point['compute_s'])}, communication {facts.seconds(point['comm_s'])}, "
          f"overlap {'-' if overlap is None else f'{overlap:.0%}'}, step / max(compute, communication) "
          f"{point['wall_over_larger']:.2f}")


def draw(points):
    known = experiments.systems(points)
    rows = experiments.groups(points, lambda point: (point["how"], point["folder"],
                                                     experiments.axes_of(point)))
    most = max(len(some) for some in rows.values())
    figure, axes = figures.new(rows=len(rows), squeeze=False,
                               size=(max(8, 3.4 + 0.55 * most), 0.3 + 4.4 * len(rows)))
    ordered = sorted(rows.items(), key=lambda row: (row[0][0] != experiments.PREDICTED, row[0]))
    for panel, ((how, folder, arranged), some) in zip(axes[:, 0], ordered):
        title = f"strategies of hidup, {how} ({folder})"
        draw_row(panel, ", ".join(text for text in (title, arranged) if text), some, known)
    handles = breakdown.legend_of_parts(predicted=ordered[0][0][0] == experiments.PREDICTED)
    wall = axes[0][0].plot([], [], color=figures.WALL, linewidth=2, label="step (wall)")
    figures.legend(axes[0][0], handles=[*wall, *handles])
    return figure


def add_arguments(parser):
    experiments.add_folders(parser)
    figures.add_out(parser)


def run(arguments):
    figures.save(draw(experiments.read(arguments.folders)),
                 experiments.out_of(arguments, "systems"))
