"""Reads the results of an experiment (jobs/experiments): a folder with a file per run.

    points = experiments.read(["out/experiments/scaling"])
    points[0]["at"]["model"], points[0]["how"], points[0]["wall_s"]

NAME.json holds what is predicted of a run, NAME.h5 is the timing file of a measured one. Files of
other programs and runs that are not finished are left out.
"""

import json
import os
import sys

import h5py
from matplotlib.lines import Line2D

from analysis import facts, figures
from analysis.busy import overlap_ratio

RECORD = "experiment_run"  # attribute of a timing file, written when the run is done
PREDICTED, MEASURED, EMULATED = "predicted", "measured here", "emulated"
NO_SYSTEM = "(no system)"
REPEATED = {"marker": "s", "linestyle": "none", "markersize": 13, "markerfacecolor": "none",
            "markeredgecolor": "#777777", "zorder": 5}
AXES = {"one": "one axis", "two": "two axes"}  # of the mesh, where a list has both: `axes` in `for`


def read(folders):
    """A dictionary per run: name, kind, folder, how (PREDICTED, MEASURED, EMULATED), at (the values of `for` in the
    list), ranks, system, label, settings; times in seconds as those of facts.of_run(), or infeasible:
    why there are none; search_s and candidates where the file has them. Sorted by file. Of runs that
    were repeated (run.py --times) the fastest one."""
    points = []
    for folder in folders:
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"{folder}: no such folder; jobs/experiments/run.py makes one")
        for name in sorted(os.listdir(folder)):
            reader = {".json": _predicted, ".h5": _measured}.get(os.path.splitext(name)[1])
            point = reader(os.path.join(folder, name)) if reader else None
            if point:
                points.append({"folder": os.path.basename(os.path.normpath(folder)), **point})
    if not points:
        raise OSError(f"{', '.join(folders)}: no finished run of an experiment")
    return _fastest(points)


def _fastest(points):
    """Of runs that differ in nothing but `again`, the fastest: other work on the machine only adds."""
    def rest(point):
        at = {name: value for name, value in point["at"].items() if name != "again"}
        return json.dumps([point["folder"], point["how"], point["system"], at])

    def time(point):
        return point["search_s"] if point["kind"] == "search" else point.get("wall_s", 0.0)

    return [min(own, key=time) for own in groups(points, rest).values()]


def _predicted(path):
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        run, result = content["run"], content["result"]
    except (ValueError, KeyError, TypeError) as error:
        print(f"warning: {path}: no result of a run ({error}), left out", file=sys.stderr)
        return None
    point = {**_identity(run), "how": PREDICTED, "infeasible": result.get("infeasible"),
             "candidates": result.get("candidates") or result.get("baselines"),
             "search_s": result.get("search_s"), "microbatches": result.get("microbatches"),
             "useful_ranks": result.get("useful_ranks")}
    if point["infeasible"]:
        return point
    compute, comm, exposed, wall = (result[f"predicted_{name}_s"] for name in (
        "compute", "comm", "exposed_comm", "iteration"))
    if run["settings"].get("train.overlap") in ("off", False):  # one instruction after the other
        exposed, wall = comm, compute + comm
    return point | {"wall_s": wall, "compute_s": compute, "comm_s": comm, "exposed_comm_s": exposed,
                    "overlap": facts.plain(overlap_ratio(comm, exposed)),
                    "wall_over_larger": wall / max(compute, comm)}


def _measured(path):
    try:
        with h5py.File(path) as file:
            run = json.loads(file.attrs[RECORD])
            how = EMULATED if "emulation" in file else MEASURED
    except (OSError, KeyError, ValueError):
        print(f"warning: {path}: not finished, left out", file=sys.stderr)
        return None
    return {**_identity(run), "how": how, "infeasible": None, "candidates": None,
            "microbatches": None, **facts.of_run(path)}


def _identity(run):
    return {"name": run["name"], "kind": run["kind"], "at": run["at"], "ranks": run["ranks"], "rate": run["rate"],
            "cluster": os.path.splitext(os.path.basename(run["cluster"]))[0],
            "system": run["system"] or NO_SYSTEM, "label": run["label"] or run["system"],
            "settings": run["settings"]}


def groups(points, key):
    """{key(point): its points}, in the order of the points."""
    found = {}
    for point in points:
        found.setdefault(key(point), []).append(point)
    return found


def panels(points):
    """[(title, points)]: of each folder what is predicted and what is measured apart, each of the
    models, and each way to arrange the ranks on axes."""
    kinds = sorted({(point["folder"], point["how"]) for point in points},
                   key=lambda kind: (kind[1] != PREDICTED, kind))
    found = []
    for folder, how in kinds:
        own = [point for point in points if (point["folder"], point["how"]) == (folder, how)]
        parts = groups(own, lambda point: (point["at"].get("model", ""), axes_of(point)))
        for (model, axes), some in sorted(parts.items(), key=lambda part: part[0]):
            title = ": ".join(text for text in (model, how) if text)
            found.append((f"{', '.join(text for text in (title, axes) if text)}\n({machine(some)})",
                          some))
    return found


def axes_of(point):
    """How its ranks are arranged, or nothing where the list has one way only."""
    return AXES.get(point["at"].get("axes"), "")


def draw_panels(titled, draw_panel, ylabel, known, extra=()):
    """A figure with draw_panel(axes, title, points) for each of panels(), and a legend of systems()
    and of the artists `extra`, which have labels."""
    columns = min(2, len(titled))
    rows = -(-len(titled) // columns)
    figure, axes = figures.new(rows=rows, columns=columns, squeeze=False,
                               size=(3.1 + 4 * columns, 0.4 + 3.8 * rows))
    for panel, (title, some) in zip(axes.flat, titled):
        draw_panel(panel, title, some)
        panel.set_title(title, fontsize=11)
    for panel in axes.flat[len(titled):]:
        panel.set_axis_off()
    for row in axes:
        row[0].set_ylabel(ylabel)
    lines = [Line2D([], [], label=label, **style) for label, style in known.values()]
    figures.legend(axes[0][-1], handles=[*lines, *extra], title="strategies of hidup")
    return figure


def machine(points):
    """Where the runs are, for titles: the cluster deck, or the folder where they have several."""
    clusters = {point["cluster"] for point in points}
    return clusters.pop() if len(clusters) == 1 else points[0]["folder"]


def ticks(axes, values):
    """On the logarithmic x axis these values, and no others."""
    values = sorted(set(values))
    figures.logarithmic(axes, "x")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set_xticks([], minor=True)


def systems(points):
    """{system: (label, style)}, the same for all panels, HiDup and its parts first."""
    order = ["hidup", "strategy-only", "duplex-only"]
    labels = {point["system"]: point["label"] for point in points}
    known = sorted(labels, key=lambda name: (order + [name]).index(name))
    return {name: (labels[name], figures.style_of(number)) for number, name in enumerate(known)}


def curve(points, x):
    """(xs, ys): x(point) and the step's seconds, of those that have one; ascending."""
    pairs = sorted((x(point), point["wall_s"]) for point in points if not point["infeasible"])
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def mark_repeated(axes, points, x):
    """Marks the searched strategies that leave ranks nothing of their own to do: they repeat the work of
    others, because messages would take longer."""
    some = [point for point in points if not point["infeasible"]
            and (point.get("useful_ranks") or point["ranks"]) < point["ranks"]]
    axes.plot([x(point) for point in some], [point["wall_s"] for point in some], **REPEATED)


def repeated_mark():
    """For the legend."""
    return Line2D([], [], label="search: ranks repeat\neach other's work", **REPEATED)


def tell_gains(title, points, known, x):
    """Prints the step's time of each system at each x(point), and how many times that of HiDup it is."""
    print(" ".join(title.split("\n")))
    for value, own in sorted(groups(points, x).items()):
        times = {point["system"]: point["wall_s"] for point in own if not point["infeasible"]}
        shown = [short(known[name][0]) + f" {facts.seconds(times[name])}" + (
            f" ({times[name] / times['hidup']:.2f} x)" if "hidup" in times and name != "hidup" else "")
            for name in known if name in times]
        print(f"  {value:g}: {', '.join(shown)}")


def short(label):
    """The label of a system without what is in brackets."""
    return label.split(" (", maxsplit=1)[0]


def add_folders(parser):
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="of jobs/experiments/run.py")


def out_of(arguments, what):
    """Where the figure goes: -o, or into the first folder."""
    return arguments.out or os.path.join(arguments.folders[0], what)


def only(points, *names):
    """The points whose list has these names in `for`. Throws OSError where none has."""
    found = [point for point in points if all(name in point["at"] for name in names)]
    if not found:
        raise OSError(f"no run is one of several {' and '.join(names)}: another experiment's folder?")
    return found
