"""Draws a pipeline schedule, as `hidup schedule --json` prints it: a lane per device, with forward,
backward and weights passes by colour.
"""

import json
import re

from matplotlib.patches import Patch

from analysis import figures

HELP = "a pipeline schedule, as hidup schedule --json prints it"

COLOURS = {"F": "#56b4e9", "B": "#e69f00", "I": "#e69f00", "W": "#009e73"}
NAMES = {"F": "forward", "B": "backward", "W": "weights"}
MOST_NAMED = 1500  # tasks; more have no room for their names
TASK = re.compile(r"(\d+)([FBIW])(\d+)$")


def parse(name):
    """Returns stage, pass and microbatch of a cell such as 2F3."""
    found = TASK.match(name)
    return int(found[1]), found[2], int(found[3])


def read_lanes(path):
    """Returns (tasks, start in s, end in s) of every slot, per device."""
    with open(path, encoding="utf-8") as file:
        try:
            plan = json.load(file)
        except ValueError:
            plan = None
    if not isinstance(plan, dict) or "slots" not in plan:
        raise ValueError(f"{path}: not what hidup schedule --json prints")
    return [[([parse(name) for name in slot["tasks"]], slot["start_s"], slot["end_s"])
             for slot in device] for device in plan["slots"]]


def draw(lanes, title):
    makespan = max(end for lane in lanes for _, _, end in lane)
    figure, axes = figures.new(size=(16, 1.4 + 0.45 * len(lanes)))
    count = sum(len(lane) for lane in lanes)
    drawn = set()
    for device, lane in enumerate(lanes):
        for tasks, start, end in lane:
            height = 0.8 / len(tasks)
            for i, (stage, kind, microbatch) in enumerate(tasks):
                bottom = device - 0.4 + i * height
                # Chunks after the first one of a device are hatched: rows of a loop or a V.
                axes.broken_barh([(start, end - start)], (bottom, height), facecolor=COLOURS[kind],
                                 edgecolor="white", linewidth=0.4,
                                 hatch="//" if stage >= len(lanes) else None)
                drawn.add("B" if kind == "I" else kind)
                if count <= MOST_NAMED and (end - start) / makespan > 0.008:
                    axes.text((start + end) / 2, bottom + height / 2, str(microbatch), ha="center",
                              va="center", fontsize=6)
    axes.set_xlim(0, makespan)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.set_yticks(range(len(lanes)), [f"device {i}" for i in range(len(lanes))])
    axes.grid(visible=False)
    axes.set_xlabel("time (s)")
    axes.set_title(title)
    figures.legend(axes, handles=[Patch(color=COLOURS[kind], label=NAMES[kind])
                                  for kind in NAMES if kind in drawn])
    return figure


def add_arguments(parser):
    parser.add_argument("files", nargs="+", metavar="FILE", help="output of hidup schedule --json")
    figures.add_out(parser)


def run(arguments):
    if arguments.out and len(arguments.files) > 1:
        raise ValueError("-o names the figure of one file")
    for path in arguments.files:
        lanes = read_lanes(path)
        makespan = max(end for lane in lanes for _, _, end in lane)
        work = sum(end - start for lane in lanes for _, start, end in lane)
        idle = 1 - work / (makespan * len(lanes))
        title = f"{path}: makespan {makespan:g} s, idle {idle:.1%}"
        figures.save(draw(lanes, title),
                     arguments.out or figures.default_name([path], "schedule"))
