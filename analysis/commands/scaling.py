"""Draws the time of a step over the number of ranks, a line per system.

FOLDER: of jobs/experiments/run.py scaling. What is predicted and what is measured have panels of
their own.
"""

from analysis import experiments, figures

HELP = "an experiment's step time over ranks, by system"


def draw(points):
    titled = experiments.panels(points)
    known = experiments.systems(points)
    figure, axes = figures.new(columns=len(titled), size=(3.1 + 3.4 * len(titled), 4.2),
                               squeeze=False)
    for panel, (title, some) in zip(axes[0], titled):
        for name, own in experiments.groups(some, lambda point: point["system"]).items():
            label, style = known[name]
            panel.plot(*experiments.curve(own, lambda point: point["ranks"]), label=label, **style)
        experiments.ticks(panel, [point["ranks"] for point in some])
        panel.set_ylim(bottom=0)
        panel.set_title(title, fontsize=11)
        panel.set_xlabel("ranks")
    axes[0][0].set_ylabel("time per step (s)")
    order = list(known)
    handles = {text: handle for panel in axes[0]
               for handle, text in zip(*panel.get_legend_handles_labels())}
    figures.legend(axes[0][-1], handles=[handles[known[name][0]] for name in order])
    return figure


def add_arguments(parser):
    experiments.add_folders(parser)
    figures.add_out(parser)


def run(arguments):
    points = experiments.only(experiments.read(arguments.folders), "ranks", "system")
    figures.save(draw(points), experiments.out_of(arguments, "scaling"))
