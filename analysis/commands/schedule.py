"""Draws a pipeline schedule: a lane per device, forward, backward and weights passes by colour.

Reads the output of `hidup schedule --json`, which has times, or a CSV file as hidup and
torch.distributed.pipelining have it, in which a forward pass, an input's gradient and a weights pass
take one unit each.
"""

import csv
import json
import re

from matplotlib.patches import Patch

from analysis import figures

HELP = "a pipeline schedule of hidup schedule --json, or of a CSV file"

COLOURS = {"F": "#56b4e9", "B": "#e69f00", "I": "#e69f00", "W": "#009e73"}
NAMES = {"F": "forward", "B": "backward", "W": "weights"}
MOST_NAMED = 1500  # tasks; more have no room for their names
TASK = re.compile(r"(\d+)([FBIW])(\d+)$")
OVERLAP = re.compile(r"\((.*)\)OVERLAP_F_B$")


def parse(name):
    """Returns stage, pass and microbatch of a cell such as 2F3; None for other cells."""
    found = TASK.match(name)
    return found and (int(found[1]), found[2], int(found[3]))


def read_cells(path):
    """Returns the slots of a CSV file per device, each a list of tasks, without moves."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file)]
    slots = []
    for row in rows:
        cells = [OVERLAP.match(cell)[1].split(";") if OVERLAP.match(cell) else [cell] for cell in row]
        slots.append([[parse(name) for name in cell] for cell in cells if parse(cell[0])])
    if not any(slots):
        raise ValueError(f"{path}: no row has a task such as 2F3")
    weights = {(stage, microbatch) for row in slots for tasks in row
               for stage, kind, microbatch in tasks if kind == "W"}
    return [[[(stage, "I" if kind == "B" and (stage, microbatch) in weights else kind, microbatch)
              for stage, kind, microbatch in tasks] for tasks in row] for row in slots]


def unit_times(slots):
    """Returns (tasks, start, end) per device, where every pass takes a unit, and B two."""
    last = max(stage for row in slots for tasks in row for stage, _, _ in tasks)
    ends, lanes = {}, [[] for _ in slots]

    def ready(stage, kind, microbatch):
        key = {"F": ("F", stage - 1), "W": ("B", stage)}.get(
            kind, ("F", last) if stage == last else ("B", stage + 1))
        return 0 if key == ("F", -1) else ends.get((*key, microbatch))

    goes_on = True
    while goes_on:
        goes_on = False
        for row, lane in zip(slots, lanes):
            while len(lane) < len(row):
                tasks = row[len(lane)]
                times = [ready(*task) for task in tasks]
                if None in times:
                    break
                start = max(times + [lane[-1][2] if lane else 0])
                end = start + sum(2 if kind == "B" else 1 for _, kind, _ in tasks)
                lane.append((tasks, start, end))
                for stage, kind, microbatch in tasks:
                    ends["B" if kind == "I" else kind, stage, microbatch] = end
                goes_on = True
    if any(len(lane) < len(row) for row, lane in zip(slots, lanes)):
        raise ValueError("the rows wait for each other; hidup schedule says where")
    return lanes


def read_lanes(path):
    """Returns (tasks, start, end) per device, and the label of the time axis."""
    if not path.endswith(".json"):
        return unit_times(read_cells(path)), "time (a pass takes 1, a whole backward pass 2)"
    with open(path, encoding="utf-8") as file:
        plan = json.load(file)
    return [[([parse(name) for name in slot["tasks"]], slot["start_s"], slot["end_s"])
             for slot in device] for device in plan["slots"]], "time (s)"


def draw(lanes, label, title):
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
    axes.set_xlabel(label)
    axes.set_title(title)
    figures.legend(axes, handles=[Patch(color=COLOURS[kind], label=NAMES[kind])
                                  for kind in NAMES if kind in drawn])
    return figure


def add_arguments(parser):
    parser.add_argument("files", nargs="+", metavar="FILE", help="schedule (CSV or JSON)")
    figures.add_out(parser)


def run(arguments):
    if arguments.out and len(arguments.files) > 1:
        raise ValueError("-o names the figure of one file")
    for path in arguments.files:
        lanes, label = read_lanes(path)
        makespan = max(end for lane in lanes for _, _, end in lane)
        work = sum(end - start for lane in lanes for _, start, end in lane)
        idle = 1 - work / (makespan * len(lanes))
        title = f"{path}: makespan {makespan:g}, idle {idle:.1%}"
        figures.save(draw(lanes, label, title),
                     arguments.out or figures.default_name([path], "schedule"))
