"""Writes timelines as trace events (JSON) for https://ui.perfetto.dev and chrome://tracing.

A rank is a process, each of its streams a thread, an instruction's run an event whose category is
its phase. The predicted step, if there is one, is a process of its own (of a pipeline a process for
each stage) that begins with the first step written. Flops, bytes and their rates are those of one
rank. Works on finished files, on those that are still being written, and on what `hidup explain
--json` prints. Prints the trace's name.
"""

import argparse
import json
import os
import re

from analysis import hidup_timings
from analysis.busy import STAGE_STREAMS, prediction_of_stages

HELP = "timelines as trace events for ui.perfetto.dev"

STREAMS = {"compute": 0, "comm": 1, "down": 2, "up": 3}  # threads
PREDICTED = -1  # a rank
STREAM_NAMES = {"compute": "compute", "comm": "communication", "down": "to later stages",
                "up": "to earlier stages"}


def process_names(attributes, predicted):
    """Returns the names by process: ranks of the run, and {process: rank or None} of predictions."""
    hosts = list(attributes["hostnames"]) if "hostnames" in attributes else []
    names = {process: "predicted" + ("" if rank is None else f" as rank {rank}")
             for process, rank in predicted.items()}
    for rank in range(int(attributes["world_size"])):
        names[rank] = f"rank {rank}" + (f" ({hosts[rank]})" if rank < len(hosts) else "")
    return names


def metadata(names, streams):
    """Yields events that name and order processes and their threads, those of these streams."""
    for process, name in names.items():
        yield "process_name", process, 0, {"name": name}
        yield "process_sort_index", process, 0, {"sort_index": process}
        for stream, thread in STREAMS.items():
            if stream in streams or stream not in STAGE_STREAMS:
                yield "thread_name", process, thread, {"name": STREAM_NAMES[stream]}
                yield "thread_sort_index", process, thread, {"sort_index": thread}


def metadata_events(names, streams):
    return [{"ph": "M", "name": name, "pid": process, "tid": thread, "args": values}
            for name, process, thread, values in metadata(names, set(streams))]


def details(event):
    """Returns the arguments of an event; a rate only where the time is not 0."""
    seconds = event["end_s"] - event["start_s"]
    values = {name: event[name] for name in ("step", "instruction", "kind", "microbatch")
              if name in event}
    if event["collective"]:
        values["collective"] = event["collective"]
    for amount, rate in (("flops", "GFLOP/s"), ("bytes", "GB/s")):
        if amount in event:  # plans have none
            values[amount] = event[amount]
            if seconds > 0 and event[amount] > 0:
                values[rate] = event[amount] / seconds / 1e9
    return values


def complete_event(event):
    """Returns the trace event of a row of read_timeline(), a dictionary. Times are in microseconds."""
    # Whole nanoseconds, the viewer's unit, keep successive events from overlapping.
    start, end = round(event["start_s"] * 1e9), round(event["end_s"] * 1e9)
    return {"ph": "X", "name": event["name"], "cat": event["phase"], "pid": event["rank"],
            "tid": STREAMS[event["stream"]], "ts": start / 1e3, "dur": (end - start) / 1e3,
            "args": details(event)}


def complete_events(rows):
    return [complete_event(row) for row in rows.to_dict("records")]


def run_events(path, attributes, steps):
    """Yields lists of trace events of a run, one per step, for files that are larger than memory."""
    prediction, predicted = hidup_timings.read_prediction(path), {}
    for step in steps:
        rows = hidup_timings.read_timeline(path, step)
        if step == steps[0]:
            if prediction is not None:
                prediction, predicted = prediction_of_stages(prediction, rows)
                prediction[["start_s", "end_s"]] += rows["start_s"].min()
            yield metadata_events(process_names(attributes, predicted), rows["stream"])
            if prediction is not None:
                yield complete_events(prediction)
        yield complete_events(rows)


def write_trace(output, about, lists):
    """Writes the events of the lists, one per line. `about`: a dictionary about the run."""
    with open(output, "w", encoding="utf-8") as file:
        file.write(f'{{"displayTimeUnit": "ms", "otherData": {json.dumps(about)},\n'
                   '"traceEvents": [')
        separator = "\n"
        for events in lists:
            for event in events:
                file.write(separator + json.dumps(event, allow_nan=False))
                separator = ",\n"
        file.write("\n]}\n")


def write_run(output, path, ranges):
    steps = chosen_steps(path, ranges)
    attributes = hidup_timings.read_attributes(path)
    about = {name: str(attributes[name]) for name in
             ("model", "program_version", "git_commit", "started_at", "command_line", "device")
             if name in attributes}
    about["strategy"] = str(hidup_timings.read_strategy(path)["name"])
    write_trace(output, about, run_events(path, attributes, steps))


def write_plan(output, path):
    plan, events = hidup_timings.read_plan(path)
    about = {name: str(plan[name]) for name in ("model", "strategy") if name in plan}
    write_trace(output, about, [metadata_events({PREDICTED: "predicted"}, events["stream"]),
                                complete_events(events)])


def step_ranges(text):
    """Returns [(1, 3), (7, 7)] for "1-3,7"."""
    ranges = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not match:
            raise argparse.ArgumentTypeError(f"{text}: expected steps such as 1-3,7")
        ranges.append((int(match[1]), int(match[2] or match[1])))
    return ranges


def chosen_steps(path, ranges):
    """Returns the steps that have a timeline in the file and lie in the ranges (None: all)."""
    there = hidup_timings.timeline_steps(path)
    if ranges is None:
        return there
    for first, last in ranges:
        if not any(first <= step <= last for step in there):
            what = f"step {first}" if first == last else f"any of steps {first}-{last}"
            raise KeyError(f"{path}: no timeline of {what}; there are those of steps "
                           f"{hidup_timings.listed(there)}")
    return [s for s in there if any(first <= s <= last for first, last in ranges)]


def add_arguments(parser):
    parser.add_argument("file", help="timing file (HDF5) of a run, or a plan (JSON)")
    parser.add_argument("--steps", type=step_ranges, metavar="1-3,7",
                        help="of a run; default: all that have a timeline")
    parser.add_argument("-o", "--output",
                        help="name of the trace; default: beside the file, -trace.json")


def run(arguments):
    output = arguments.output or os.path.splitext(arguments.file)[0] + "-trace.json"
    if not hidup_timings.is_plan(arguments.file):
        write_run(output, arguments.file, arguments.steps)
    elif arguments.steps is None:
        write_plan(output, arguments.file)
    else:
        raise ValueError("--steps: a plan has one step, without a number")
    print(output)
