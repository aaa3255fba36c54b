"""Draws how long the search for a strategy takes over the layers of the model, a line per number of
devices. These times were measured on the machine where the search ran, the least of the runs where
they were repeated; no ranks were there.

FOLDER: of jobs/experiments/run.py searchtime.
"""

from analysis import experiments, figures

HELP = "an experiment's time of the search over layers and devices"

PARTS = {"both": ("-", ""), "strategy-only": (":", ", one microbatch only")}


def draw(points):
    figure, axes = figures.new(size=(8.5, 4.5))
    devices = sorted({point["ranks"] for point in points})
    key = (lambda point: (point["at"].get("part", "both"), point["ranks"]))
    found = experiments.groups(points, key)
    for part, ranks in sorted(found, key=lambda pair: (pair[0] != "both", pair)):
        pairs = sorted((point["at"]["layers"], point["search_s"]) for point in found[part, ranks])
        line, note = PARTS.get(part, ("--", f", {part}"))
        style = figures.style_of(devices.index(ranks)) | {"linestyle": line}
        axes.plot(*zip(*pairs), label=f"{ranks} devices{note}", **style)
        print(f"{ranks} devices{note}: " + ", ".join(f"{layers} layers {seconds:.2f} s"
                                                     for layers, seconds in pairs))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("layers")
    axes.set_ylabel("time of the search (s)")
    axes.set_title("measured here: hidup search")
    figures.legend(axes)
    return figure


def add_arguments(parser):
    experiments.add_folders(parser)
    figures.add_out(parser)


def run(arguments):
    points = experiments.only(experiments.read(arguments.folders), "layers")
    points = [point for point in points if point["search_s"]]
    figures.save(draw(points), experiments.out_of(arguments, "searchtime"))
