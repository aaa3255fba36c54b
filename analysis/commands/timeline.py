"""Draws a step's timeline: the instructions on each rank's streams.

Bars are coloured by microbatch, pale in the forward pass and dark in the backward pass; time in
which only communication ran is hatched. Busy times of its streams stand beside each rank
(busy.busy_times), and predictions above measurements: of a pipeline one for each stage
of the ranks that are drawn. Works on finished files, on those that are still being written, and on
output of `hidup explain --json`.
"""

import argparse
import functools
import re
import typing

import matplotlib.pyplot as plt
import numpy
import pandas
from matplotlib.colors import to_rgb
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch
from matplotlib.textpath import text_to_path

from analysis import facts, figures, hidup_timings
from analysis.busy import (MESSAGE_STREAMS, STAGE_STREAMS, busy_times, exposed_intervals, has_stages,
                           prediction_of_stages)

HELP = "what ran when on each rank's streams in a step"

MOST_RANKS = 8  # drawn by default

# A panel has, from top to bottom in its own units, the phases and the two streams; below them those
# between stages, where there are some.
BANDS, COMPUTE, COMM = (2.2, 0.16), (1.1, 1.0), (0.0, 1.0)  # (bottom, height)
LANES = {"compute": COMPUTE, "comm": COMM}
STAGE_LANE, STAGE_LANE_APART = 0.5, 0.6  # their height, and the distance of their bottoms
LANE_NAMES = {"compute": "compute", "comm": "communication", "down": "to later stages",
              "up": "to earlier stages"}
BELOW = 0.06  # the lowest lane

HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7")  # figures.COLOURS that remain distinct when pale
NEUTRAL = "#8a8a8a"  # belongs to no microbatch
HATCHED = {"facecolor": "#f9dde1", "edgecolor": "#c8102e", "hatch": "//////", "linewidth": 0}
PHASES = {"forward": "#d8dde3", "backward": "#5b6570", "update": "#b8a97c"}
# The part of the hue in a bar; the rest is white.
STRENGTH = {"forward": 0.5, "backward": 1.0, "update": 0.75}

NAME_POINTS = 6.5  # the size of the names in the bars
LINE_SPACING = 1.15
NAME_PADDING = 4.0  # points on both sides together
NAMED = 60  # the number of largest bars of a lane that are tried
MOST_LINES = 4  # of a name in its bar
MOST_PATHS = 3000  # bars of a figure that are drawn as paths; more are an image, also in SVG


class Panel(typing.NamedTuple):
    """One rank's timeline. Times start, end and length are milliseconds since the step's start."""
    label: str
    events: pandas.DataFrame  # of read_timeline(), with start, end and length
    exposed: numpy.ndarray  # [n, 2], from start to end
    busy: pandas.Series  # the rank's row of busy_times()


def lanes_of(panels):
    """Returns (bottom, height) of the streams' lanes; all panels have the same."""
    lanes = dict(LANES)
    for stream in STAGE_STREAMS:
        if any((panel.events["stream"] == stream).any() for panel in panels):
            lanes[stream] = ((len(LANES) - 1 - len(lanes)) * STAGE_LANE_APART, STAGE_LANE)
    return lanes


def hue(microbatch, count):
    """Returns the colour of a microbatch's backward pass; many microbatches share a scale."""
    if microbatch < 0:
        return NEUTRAL
    if count <= len(HUES):
        return HUES[microbatch]
    return plt.get_cmap("viridis")(0.9 * microbatch / (count - 1))


def shade(microbatch, phase, count):
    if phase == "update" and microbatch < 0:
        return to_rgb(PHASES["update"])
    strength = STRENGTH.get(phase, 1.0)
    return tuple(1 - strength * (1 - part) for part in to_rgb(hue(microbatch, count)))


def spans(intervals):
    """Returns (start, length), for broken_barh, of intervals [n, 2]."""
    return numpy.column_stack([intervals[:, 0], intervals[:, 1] - intervals[:, 0]])


def draw_phases(axes, events):
    """Draws a band per stretch of computation of one phase, with its name where that fits."""
    compute = events[events["stream"] == "compute"]
    stretch = (compute["phase"] != compute["phase"].shift()).cumsum()
    for _, run in compute.groupby(stretch):
        phase, start, end = run["phase"].iloc[0], run["start"].min(), run["end"].max()
        colour = PHASES.get(phase, NEUTRAL)
        axes.broken_barh([(start, end - start)], BANDS, facecolor=colour, linewidth=0)
        width, _ = text_size(phase)
        if width + NAME_PADDING < (end - start) * points_per_unit(axes)[0]:
            axes.text((start + end) / 2, BANDS[0] + BANDS[1] / 2, phase, ha="center",
                      va="center_baseline", fontsize=NAME_POINTS, color=ink(colour))


def draw_bars(axes, events, lanes, count):
    point = 1.0 / points_per_unit(axes)[0]
    for (stream, microbatch, phase), bars in events.groupby(["stream", "microbatch", "phase"]):
        values = bars[["start", "length"]].to_numpy()
        if stream in MESSAGE_STREAMS:  # short messages between idle times would be invisible
            values[:, 1] = numpy.maximum(values[:, 1], 0.5 * point)
        colour = shade(microbatch, phase, count)
        # White edges separate bars that are much wider than the edges.
        wide = values[:, 1] > 4 * point
        for some, edge in ((values[~wide], 0.0), (values[wide], 0.4)):
            axes.broken_barh(some, lanes[stream], facecolor=colour, edgecolor="white",
                             linewidth=edge)


def points_per_unit(axes):
    """Returns the points of a unit of each axis in the figure's present layout."""
    box, dpi = axes.get_window_extent(), axes.figure.dpi
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    return (box.width / (right - left) * 72 / dpi, box.height / (top - bottom) * 72 / dpi)


@functools.lru_cache(maxsize=None)
def text_size(text):
    """Returns width and height in points."""
    font = FontProperties(size=NAME_POINTS)
    lines = text.split("\n")
    width = max(text_to_path.get_text_width_height_descent(line, font, False)[0] for line in lines)
    return width, LINE_SPACING * NAME_POINTS * len(lines)


def ink(colour):
    """Returns black or white, whichever is more readable on the colour."""
    red, green, blue = to_rgb(colour)
    return "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"


def wrapped(name, lines):
    """Returns the name on at most `lines` lines of similar lengths, broken after dots and spaces."""
    text, room = [""], len(name) / lines
    for piece in re.findall(r"[^. ]*[. ]|[^. ]+", name):
        if text[-1] and len(text[-1]) + len(piece) / 2 > room and len(text) < lines:
            text.append("")
        text[-1] += piece
    return "\n".join(text)


def fit(name, width, height):
    """Returns the name in a form that fits into so many points, and its angle; None if none does."""
    for angle in (0, 90):
        for lines in range(1, MOST_LINES + 1):
            text = wrapped(name, lines)
            size = text_size(text) if angle == 0 else text_size(text)[::-1]
            if size[0] <= width and size[1] <= height:
                return text, angle
    return None


def draw_names(axes, events, lanes, count):
    """Draws names of the largest bars, along or across them, where they fit."""
    across, upward = points_per_unit(axes)
    for stream, (bottom, height) in lanes.items():
        bars = events[events["stream"] == stream]
        for bar in bars.nlargest(NAMED, "length").to_dict("records"):
            fitting = fit(bar["name"], bar["length"] * across - NAME_PADDING,
                          height * upward - NAME_PADDING)
            if fitting:
                axes.text(bar["start"] + bar["length"] / 2, bottom + height / 2, fitting[0],
                          rotation=fitting[1], ha="center", va="center", fontsize=NAME_POINTS,
                          linespacing=1.05,
                          color=ink(shade(bar["microbatch"], bar["phase"], count)))


def numbers(busy):
    """Returns the text beside a rank: its row of busy_times()."""
    lines = [f"{label:14}{busy[key] * 1e3:9.2f} ms"
             for label, key in (("compute", "compute_s"), ("communication", "comm_s"),
                                ("exposed", "exposed_comm_s"), ("idle", "idle_s"),
                                ("pipeline idle", "pipeline_idle_s"), ("wall", "wall_s"))
             if key in busy]
    overlap = "–" if numpy.isnan(busy["overlap"]) else f"{busy['overlap']:.1%}"
    return "\n".join([*lines, f"{'overlap ratio':14}{overlap:>9}"])


def draw_panel(axes, panel, lanes, count):
    draw_phases(axes, panel.events)
    # Exposed communication is drawn in the lane of computation, which waits.
    axes.broken_barh(spans(panel.exposed), COMPUTE, **HATCHED)
    draw_bars(axes, panel.events, lanes, count)
    draw_names(axes, panel.events, lanes, count)
    axes.set_ylabel(panel.label, fontsize=11, fontweight="bold")
    axes.text(1.01, 0.5, numbers(panel.busy), transform=axes.transAxes, va="center", fontsize=8,
              family="monospace", linespacing=1.35)


def legend_entries(panels, count):
    """Returns the legend of the colours; of many microbatches the first, the middle and the last."""
    events = pandas.concat([panel.events for panel in panels])
    real = sorted(set(events["microbatch"]) - {-1})
    entries = {}
    for m in real if count <= len(HUES) else (real[0], real[len(real) // 2], real[-1]):
        entries[f"microbatch {m}"] = {"color": shade(m, "backward", count)}
    if ((events["microbatch"] == -1) & (events["phase"] != "update")).any():
        entries["parameters, gradients"] = {"color": shade(-1, "backward", count)}
    for phase in (phase for phase in PHASES if (events["phase"] == phase).any()):
        sample = real[0] if real and phase != "update" else -1
        entries[phase] = {"color": shade(sample, phase, count)}
    if any(len(panel.exposed) for panel in panels):
        entries["exposed: only communication runs"] = HATCHED
    return [Patch(label=label, **style) for label, style in entries.items()]


def draw(panels, heading):
    """Draws a figure of panels from top to bottom."""
    count = 1 + max(panel.events["microbatch"].max() for panel in panels)
    lanes = lanes_of(panels)
    below = BELOW - min(low for low, _ in lanes.values())
    top_of_panel = BANDS[0] + BANDS[1]
    each = max(1.3, 2.9 - 0.3 * len(panels))  # inches
    each *= (top_of_panel + below) / (top_of_panel + BELOW)
    top, bottom = 0.95, 0.6
    height = top + bottom + each * len(panels)
    figures.style(**{"axes.spines.left": False, "axes.grid": False, "font.size": 10})
    figure, columns = plt.subplots(len(panels), 1, figsize=(16, height), sharex=True,
                                   squeeze=False)
    figure.subplots_adjust(left=0.09, right=0.86, top=1 - top / height, bottom=bottom / height,
                           hspace=0.16)
    figure.suptitle(heading, fontsize=14, x=0.09, ha="left", y=1 - 0.15 / height, va="top")
    begin = min(panel.events["start"].min() for panel in panels)
    end = max(panel.events["end"].max() for panel in panels)
    many = sum(len(panel.events) for panel in panels) > MOST_PATHS
    for axes, panel in zip(columns[:, 0], panels):
        if many:
            axes.set_rasterization_zorder(2)  # bars are below it, texts above
        axes.set_xlim(begin, end)
        axes.set_ylim(-below, top_of_panel)
        axes.set_yticks([low + size / 2 for low, size in lanes.values()],
                        [LANE_NAMES[stream] for stream in lanes], fontsize=8)
        axes.tick_params(axis="y", length=0)
        draw_panel(axes, panel, lanes, count)
    columns[-1, 0].set_xlabel("time since the step's first instruction (ms)")
    figure.text(0.985, 0.12 / height, "overlap ratio = the hidden part of communication / "
                "communication", ha="right", fontsize=8)
    figure.legend(handles=legend_entries(panels, count), loc="upper left", ncols=8,
                  bbox_to_anchor=(0.085, 1 - 0.42 / height), fontsize=8.5, borderpad=0,
                  handlelength=1.4, columnspacing=1.4)
    return figure


def measured_panels(path, step, ranks):
    """Returns the panels of the ranks (None: the first ones), and the step."""
    events = hidup_timings.read_timeline(path, step)
    there = sorted(events["rank"].unique())
    missing = [rank for rank in ranks or [] if rank not in there]
    if missing:
        raise KeyError(f"{path}: no rank {missing[0]}; there are ranks 0 to {there[-1]}")
    slow = facts.slow_ranks(path, int(events["step"].iloc[0]))
    labels = {rank: f"rank {rank}" + ("\nslow" if rank in slow else "")
              for rank in ranks or there[:MOST_RANKS]}
    return panels_of(events, labels), int(events["step"].iloc[0])


def predicted_panels(path, measured):
    """Returns the panel of the prediction, if the file has one; of a pipeline a panel for each stage of the
    measured panels."""
    events = hidup_timings.read_prediction(path)
    if events is None:
        return []
    events, ranks = prediction_of_stages(
        events, pandas.concat([panel.events for panel in measured]))
    return panels_of(events, {at: "predicted" + ("" if rank is None else f"\nas rank {rank}")
                              for at, rank in ranks.items()})


def panels_and_heading(path, step, ranks):
    """Returns panels and heading for a run's timing file, or for a plan."""
    if hidup_timings.is_plan(path):
        plan, events = hidup_timings.read_plan(path)
        # A plan does not say which rank runs what.
        label = "predicted" + (",\nall stages" if has_stages(events) else "")
        return (panels_of(events, {-1: label}),
                f"{plan['model']}, {plan['strategy']} on {plan['ranks']} ranks: a step, predicted")
    measured, step = measured_panels(path, step, ranks)
    return predicted_panels(path, measured) + measured, heading(path, step, len(measured))


def panels_of(events, labels):
    """Returns a panel for each rank that has a label."""
    busy = busy_times(events)
    origin = events["start_s"].min()
    for name in ("start", "end"):
        events[name] = (events[f"{name}_s"] - origin) * 1e3
    events["length"] = events["end"] - events["start"]
    panels = []
    for rank, label in labels.items():
        of_rank = events[events["rank"] == rank]
        exposed = (exposed_intervals(of_rank) - origin) * 1e3
        panels.append(Panel(label, of_rank, exposed, busy.loc[rank]))
    return panels


def heading(path, step, shown):
    of = f", {shown} of them shown" if shown < hidup_timings.read_attributes(path)[
        "world_size"] else ""
    return f"{facts.subject(path)}: step {step}{of}"


def rank_list(text):
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise argparse.ArgumentTypeError(f"{text}: expected ranks such as 0,1")
    return sorted({int(rank) for rank in text.split(",")})


def add_arguments(parser):
    parser.add_argument("file", help="timing file (HDF5) of a run, or a plan (JSON)")
    parser.add_argument("--step", type=int, help="default: the last one that has a timeline")
    parser.add_argument("--ranks", type=rank_list, metavar="0,1,...",
                        help=f"default: all, or the first {MOST_RANKS}")
    figures.add_out(parser)


def run(arguments):
    figure = draw(*panels_and_heading(arguments.file, arguments.step, arguments.ranks))
    figures.save(figure, arguments.out or figures.default_name([arguments.file], "timeline"))
