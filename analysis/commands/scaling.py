"""Draws the time of a step over the number of ranks, a line per system. Prints the times, and how
many times that of the searched strategy they are.

FOLDER: of jobs/experiments/run.py scaling. What is predicted and what is measured have panels of
their own.
"""

from analysis import experiments, figures

HELP = "an experiment's step time over ranks, by system"


def draw(points):
    known = experiments.systems(points)

    def draw_panel(axes, title, some):
        experiments.tell_gains(title, some, known, lambda point: point["ranks"])
        for name, own in experiments.groups(some, lambda point: point["system"]).items():
            axes.plot(*experiments.curve(own, lambda point: point["ranks"]), **known[name][1])
        experiments.mark_repeated(axes, some, lambda point: point["ranks"])
        experiments.ticks(axes, [point["ranks"] for point in some])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("ranks")

    return experiments.draw_panels(experiments.panels(points), draw_panel, "time per step (s)", known,
                                   [experiments.repeated_mark()])


def add_arguments(parser):
    experiments.add_folders(parser)
    figures.add_out(parser)


def run(arguments):
    points = experiments.only(experiments.read(arguments.folders), "ranks", "system")
    figures.save(draw(points), experiments.out_of(arguments, "scaling"))
