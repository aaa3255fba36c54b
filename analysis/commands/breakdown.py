"""Draws where the time of a step goes, measured and, beside it, predicted.

A bar from 0 to the wall line has the parts of the step: computation, communication while nothing was
computed (exposed), and idle time. Above the line stands the communication that was hidden behind
computation: the step would take so much longer without overlap. The line is
the median of the steps; the parts are means of the rank that computed longest, without the first step.

--by kind, operation or phase: the time of the instructions instead, from the timelines in the file
(without that of the first step, if there are others): the mean of the ranks, the median of the steps.
A rank that skips an instruction spends no time on it. Instructions of different streams overlap, so these
times add up to more than the step.
"""

import re

import numpy
import pandas
from matplotlib.patches import Patch

from analysis import facts, figures, hidup_timings

HELP = "where the time of a step goes; by kind of instruction, operation or phase"

MOST_BARS = 20  # of --by; the others are one
MOST_TIMELINES = 50  # steps that are read of a file for --by
PREDICTED = {"alpha": 0.55, "hatch": "//", "edgecolor": "white", "linewidth": 0}
NUMBER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.2}  # behind its digits
HIDDEN = {"hatch": "xx", "edgecolor": "white", "linewidth": 0}
PARTS = (("compute_s", "compute", figures.COMPUTE),
         ("exposed_comm_s", "exposed communication", figures.EXPOSED),
         ("idle_s", "idle", figures.IDLE),
         ("hidden_s", "hidden communication", figures.HIDDEN))


def parts(run, prefix=""):
    """The parts of a step in seconds; prefix "predicted_": those of the prediction, None if there is
    none."""
    wall = run.get("predicted_iteration_s" if prefix else "wall_s")
    found = {name: run.get(prefix + name) for name in ("compute_s", "comm_s", "exposed_comm_s")}
    if not wall or None in found.values():
        return None
    return {"wall_s": wall, **found, "hidden_s": max(0.0, found["comm_s"] - found["exposed_comm_s"]),
            "idle_s": max(0.0, wall - found["compute_s"] - found["exposed_comm_s"])}


def look_of(part, predicted):
    return {**(HIDDEN if part == "hidden_s" else {}), **(PREDICTED if predicted else {})}


def draw_bar(axes, at, values, predicted):
    bottom = 0.0
    for name, _, colour in PARTS:
        height = 1e3 * values[name]
        axes.bar(at, height, 0.36, bottom=bottom, color=colour, **look_of(name, predicted))
        bottom += height
    axes.plot([at - 0.22, at + 0.22], [1e3 * values["wall_s"]] * 2, color=figures.WALL, linewidth=2)
    wall_ms = 1e3 * values["wall_s"]
    axes.annotate(f"{wall_ms:.4g}" if wall_ms < 9999 else f"{wall_ms:.0f}", (at, wall_ms), (0, 3),
                  textcoords="offset points", ha="center", va="bottom", fontsize=9, bbox=NUMBER)


def draw_steps(paths):
    """The bars of the files' steps."""
    runs = [facts.of_run(path) for path in paths]
    figure, axes = figures.new(size=(max(8, 3.6 + 1.9 * len(paths)), 5.5))
    ticks = {}
    for number, (run, name) in enumerate(zip(runs, facts.short_names(paths))):
        measured, predicted = parts(run), parts(run, "predicted_")
        draw_bar(axes, number - 0.21, measured, False)
        ticks[number - 0.21] = "measured"
        if predicted:
            draw_bar(axes, number + 0.21, predicted, True)
            ticks[number + 0.21] = "predicted"
        rank = f"\nrank {run['slowest_rank']} of {run['world_size']}"
        axes.text(number, -0.11, f"{name}\n{run['strategy'] or '?'}{rank}", ha="center", va="top",
                  transform=axes.get_xaxis_transform(), fontsize=9)
    axes.margins(y=0.1)
    axes.set_xticks(list(ticks), list(ticks.values()), fontsize=9)
    axes.set_xlim(-0.6, len(paths) - 0.4)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel("time per step (ms)")
    axes.set_title(title(paths))
    wall = axes.plot([], [], color=figures.WALL, linewidth=2, label="step (wall), with its time")
    figures.legend(axes, handles=[*wall, *legend_of_parts(False)])
    return figure


def legend_of_parts(predicted):
    return [Patch(facecolor=colour, label=label, **look_of(name, predicted))
            for name, label, colour in reversed(PARTS)]


def title(paths):
    if len(paths) > 1:
        return "Where the time of a step goes"
    return facts.subject(paths[0])


def kinds_of(program):
    """What --by kind tells apart: collectives by their kind."""
    return program["collective"].where(program["collective"] != "", program["kind"])


def operations_of(program):
    """Names without the numbers of layers, buckets and stages: those of all layers are one."""
    return program["name"].map(lambda name: re.sub(r"\.\d+(?=[.,]|$)", "", name))


GROUPS = {"kind": kinds_of, "operation": operations_of, "phase": lambda program: program["phase"]}


def used_steps(path):
    """The steps with a timeline that count: not the first one, if there are others."""
    steps = hidup_timings.timeline_steps(path)
    steps = steps[1:] if len(steps) > 1 else steps
    return steps[::-(-len(steps) // -MOST_TIMELINES)] if len(steps) > MOST_TIMELINES else steps


def instruction_times(path):
    """How long the instructions took: a data frame by instruction, with the columns of read_program();
    measured_s, the median over steps (of used_steps()) of the mean over the ranks that ran it; and
    their part of all ranks."""
    program = hidup_timings.read_program(path)
    world = hidup_timings.read_attributes(path)["world_size"]
    steps = []
    for step in used_steps(path):
        events = hidup_timings.read_timeline(path, step)
        lengths = events["end_s"] - events["start_s"]
        steps.append(lengths.groupby(events["instruction"]).mean())
    return program.assign(measured_s=pandas.concat(steps, axis=1).median(axis=1),
                          part=events.groupby("instruction").size() / world)


def grouped(path, by):
    """Seconds per step by group, the mean of all ranks: a data frame with measured_s and, if there was one,
    predicted_s."""
    program = instruction_times(path)
    columns = [name for name in ("measured_s", "predicted_s") if name in program]
    times = program[columns].mul(program["part"], axis=0)
    return times.groupby(GROUPS[by](program)).sum()


def largest(frames):
    """The groups with the largest times in any of the files, descending, and the others' number."""
    together = pandas.concat([frame["measured_s"] for frame in frames], axis=1).max(axis=1)
    order = list(together.sort_values(ascending=False).index)
    if len(order) <= MOST_BARS:
        return order, 0
    return order[:MOST_BARS - 1], len(order) - MOST_BARS + 1


def draw_groups(paths, by):
    frames = [grouped(path, by) for path in paths]
    groups, others = largest(frames)
    labels = groups + ([f"{others} others"] if others else [])
    bars = [(frame, column, number) for number, frame in enumerate(frames) for column in frame]
    thickness = 0.8 / len(bars)
    height = 1.8 + len(labels) * max(0.26, 0.13 * len(bars))
    figure, axes = figures.new(size=(11, height))
    for at, (frame, column, number) in enumerate(bars):
        values = frame[column].reindex(groups).fillna(0.0).tolist()
        if others:
            values.append(frame[column].sum() - sum(values))
        name = facts.short_names(paths)[number] + ": " if len(paths) > 1 else ""
        predicted = column == "predicted_s"
        axes.barh(numpy.arange(len(labels)) - 0.4 + (at + 0.5) * thickness, 1e3 * numpy.array(values),
                  thickness, color=figures.COLOURS[number % len(figures.COLOURS)],
                  label=name + ("predicted" if predicted else "measured"),
                  **(PREDICTED if predicted else {}))
    axes.set_yticks(range(len(labels)), [label or "none" for label in labels], fontsize=9)
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("time per step (ms), mean of the ranks")
    steps = {len(used_steps(path)) for path in paths}
    median = f", median of {steps.pop()} steps" if len(steps) == 1 else ", median of the steps"
    axes.set_title(f"{title(paths)}\nby {by}{median}")
    figures.legend(axes)
    return figure


def draw(paths, by=None):
    return draw_groups(paths, by) if by else draw_steps(paths)


def add_arguments(parser):
    parser.add_argument("files", nargs="+", metavar="FILE", help="timing file of a run")
    parser.add_argument("--by", choices=GROUPS, help="times of the instructions, in such groups")
    figures.add_out(parser)


def run(arguments):
    what = f"breakdown-by-{arguments.by}" if arguments.by else "breakdown"
    figure = draw(arguments.files, arguments.by)
    figures.save(figure, arguments.out or figures.default_name(arguments.files, what))
