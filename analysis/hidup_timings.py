"""Reads hidup's timing files, also while they are written and after a kill.

    import busy, hidup_timings
    frame = hidup_timings.read("out/quickstart.h5")         # one row per step
    frame[["loss", "wall_s", "compute_s_mean", "comm_s_max"]]
    hidup_timings.read_validation("out/quickstart.h5")["loss"]
    program = hidup_timings.read_table("out/quickstart.h5", "program")
    strategy = hidup_timings.read_strategy("out/quickstart.h5")["text"]
    loads = hidup_timings.read_experts("out/quickstart.h5")  # of a model with experts
    loads["dropped"].sum() / loads["tokens"].sum()
    events = hidup_timings.read_timeline("out/quickstart.h5", step=3)
    busy.busy_times(events)                                  # one row per rank: busy.py

A training that was stopped and resumed has a file per run. read() and read_validation() join them,
starting from the last one; all others read one file.

Needs h5py, numpy and pandas. Units are those of the datasets' attribute `unit`:
seconds, bytes, tokens, nats.
"""

import contextlib
import functools
import json
import os
import sys

import h5py
import numpy
import pandas

COLUMNS = {"iterations": ("step", "wall_s", "loss"),
           "timeline": ("step", "rank", "instruction", "start_s", "end_s"),
           "program": ("name", "kind", "stream", "microbatch", "phase", "collective")}
SPANS = ("compute_s", "comm_s", "exposed_comm_s")  # of /ranks; files of pipelines also have idle_s
SWMR_WRITTEN = 4  # flag of an HDF5 file: is written for readers, or its writer was killed


def open_file(path):
    """Returns the open h5py.File; the writer may go on writing."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path}: no such file")
    flags = _check_length(path)
    try:
        # In this mode h5py waits where a checksum is wrong, forever in a file without a writer.
        return h5py.File(path, "r", swmr=bool(flags & SWMR_WRITTEN))
    except (OSError, RuntimeError, ValueError) as error:
        raise OSError(f"{path}: not a readable HDF5 file, or one being created ({error})") from error


def _check_length(path):
    """Returns the flags of an HDF5 file and checks its length: h5py reads the missing part of a killed run's
    file as zeros. A file of another version than hidup writes is left to h5py."""
    with open(path, "rb") as file:
        head = file.read(36)
        size = os.fstat(file.fileno()).st_size  # after the head, which has the length
    if len(head) < 36 or head[:8] != b"\x89HDF\r\n\x1a\n" or head[8] != 3:
        return SWMR_WRITTEN
    expected = int.from_bytes(head[28:36], "little")
    if size < expected:
        raise OSError(f"{path}: truncated: {size:,} of {expected:,} bytes")
    return head[11]


@contextlib.contextmanager
def reading(path):
    """Opens the file, for a with statement. h5py's error about a missing or damaged part becomes an error
    that names the file."""
    with open_file(path) as file:
        try:
            yield file
        except (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError) as error:
            message = str(error.args[0] if error.args else error)
            if message.startswith(path):
                raise
            raise OSError(f"{path}: damaged, or not a timing file ({message})") from error


def segments(path):
    """Returns the files of a training that ends with this one, the earliest first: a list of (path, last
    step that counts). That step is None where all of the file's steps count.

    A file that is missing or cannot be read is a warning on stderr; earlier files are left out.
    """
    found, last = [(path, None)], None
    while True:
        later = found[0][0]
        attributes = read_attributes(later)
        if "continued_from" not in attributes:
            return found
        earlier = os.path.join(os.path.dirname(later), attributes["continued_from"])
        step = int(attributes["continued_at_step"])
        last = step if last is None else min(step, last)
        try:
            open_file(earlier).close()
            if any(os.path.samefile(earlier, known) for known, _ in found):
                raise OSError(f"{earlier}: goes on from itself")
        except OSError as error:
            _warn_once(f"{later} goes on from step {step} of another run, which is left out: {error}")
            return found
        found.insert(0, (earlier, last))


@functools.cache
def _warn_once(message):
    print(f"warning: {message}", file=sys.stderr)


def _joined(path, join, read_one):
    """Concatenates the data frames, by step, of all segments, or reads this file only."""
    if not join:
        return read_one(path)
    frames = [(read_one(each), last) for each, last in segments(path)]
    return pandas.concat([frame if last is None else frame[frame.index <= last]
                          for frame, last in frames])


def read(path, join=True):
    """Returns a data frame by step: /iterations, and mean and maximum over the ranks of /ranks.

    A step whose row is not complete yet is left out. With `join`, the steps of the earlier runs that
    this one resumed come first.
    """
    return _joined(path, join, _read_steps)


def read_validation(path, join=True):
    """Returns the validation losses: a data frame by step with the column loss; empty if there are none.

    `join` as in read().
    """
    return _joined(path, join, _read_validation)


def _read_validation(path):
    with reading(path) as file:
        names = ("step", "loss")
        columns = {name: file["validation"][name][:] if "validation" in file else numpy.empty(0)
                   for name in names}
    rows = min(len(values) for values in columns.values())
    return pandas.DataFrame({k: v[:rows] for k, v in columns.items()}).set_index("step")


def _read_steps(path):
    with reading(path) as file:
        columns = {name: data[:] for name, data in _columns(path, file, "iterations").items()}
        for name, spans in _spans(path, file).items():
            columns[f"{name}_mean"] = spans.mean(axis=1)
            columns[f"{name}_max"] = spans.max(axis=1)
    rows = min(len(values) for values in columns.values())
    return pandas.DataFrame({k: v[:rows] for k, v in columns.items()}).set_index("step")


def read_spans(path):
    """Returns arrays [steps, ranks] by name: compute_s, comm_s, exposed_comm_s and, of a pipeline, idle_s;
    steps as in read() of this file only. NaN where a step was not timed (cluster.device.timed_every)."""
    with reading(path) as file:
        spans = _spans(path, file)
    rows = min(len(values) for values in spans.values())
    return {name: values[:rows] for name, values in spans.items()}


def _spans(path, file):
    names = (*SPANS, "idle_s") if "ranks/idle_s" in file else SPANS
    return {name: part(path, file, f"ranks/{name}")[:] for name in names}


def _columns(path, file, group):
    """Returns the columns of a group by name. All timing files have those of COLUMNS, and may have more."""
    for name in COLUMNS[group]:
        if part(path, file, f"{group}/{name}").ndim != 1:
            raise OSError(f"{path}: /{group}/{name} is not a column")
    return {name: data for name, data in file[group].items() if getattr(data, "ndim", 0) == 1}


def part(path, file, name):
    """Returns a group or dataset that all timing files have."""
    if name not in file:
        raise KeyError(f"{path}: no /{name}: not the timing file of a run")
    return file[name]


def read_experts(path):
    """Returns the load of every expert in every step: a data frame by (step, layer, expert).

    Columns: tokens, the number that chose the expert; dropped, the number of these without a slot.
    Layers are those with experts, numbered from 0. A step whose row is not complete yet is left
    out. Raises KeyError if the model has no experts.
    """
    with reading(path) as file:
        if "experts" not in file:
            raise KeyError(f"{path}: the model has no experts")
        columns = {name: file["experts"][name][:] for name in ("tokens", "dropped")}
        steps = file["iterations/step"][:]
    rows = min(len(steps), *(len(values) for values in columns.values()))
    _, layers, experts = columns["tokens"].shape
    index = pandas.MultiIndex.from_product([steps[:rows], range(layers), range(experts)],
                                           names=["step", "layer", "expert"])
    return pandas.DataFrame({k: v[:rows].ravel() for k, v in columns.items()}, index=index)


def read_stragglers(path):
    """Returns what the run found out about slow ranks, in the order in which it did: a data frame with the
    columns step (when it was found), since, rank, cause (text), slower_by (0.5: 1.5 times as long) and over
    (True: the rank has its usual pace again). Without rows where ranks were not compared."""
    columns = ("step", "since", "rank", "cause", "slower_by", "over")
    with reading(path) as file:
        if "stragglers" not in file:
            return pandas.DataFrame(columns=columns)
        group = file["stragglers"]
        frame = pandas.DataFrame(_equally_long({name: group[name][:] for name in columns}))
        causes = dict(enumerate(group.attrs["causes"]))
    return frame.assign(cause=frame["cause"].map(causes), over=frame["over"] != 0)


def read_adapt(path):
    """Returns the changes of shares that a run tried (train.adapt), and the shares with which it started.

    The changes are a data frame with the columns step (the first with the change), last (the last that was
    measured), before_s, after_s, spread_s, kept (False: undone) and shares, an array [ranks] with the part of the
    work of each rank. Without rows, and None, where the run does not adapt."""
    columns = ("step", "last", "before_s", "after_s", "spread_s", "kept", "shares")
    with reading(path) as file:
        if "adapt" not in file:
            return pandas.DataFrame(columns=columns), None
        group = file["adapt"]
        values = _equally_long({name: group[name][:] for name in columns})
        start = group["shares_at_start"][:]
    frame = pandas.DataFrame({**values, "shares": list(values["shares"])})
    return frame.assign(kept=frame["kept"] != 0), start


def _equally_long(columns):
    rows = min(len(values) for values in columns.values())
    return {name: values[:rows] for name, values in columns.items()}


def read_table(path, group):
    """Returns the equally long columns of a group, "program" or "timeline", as a data frame."""
    with reading(path) as file:
        columns = {name: data.asstr()[:] if h5py.check_string_dtype(data.dtype) else data[:]
                   for name, data in _columns(path, file, group).items()}
    rows = min(len(values) for values in columns.values())
    if group == "program" and any(len(values) > rows for values in columns.values()):
        raise OSError(f"{path}: damaged: the columns of /program are not equally long")
    return pandas.DataFrame({k: v[:rows] for k, v in columns.items()})


def read_program(path):
    """Returns /program like read_table(). An instruction that rank 0 skips has the flops and bytes of a rank
    that runs it, where the file has them (/program/distinct)."""
    program = read_table(path, "program")
    with reading(path) as file:
        distinct = file.get("program/distinct", {})
        if {"flops", "bytes"} <= {*program} & {*distinct}:
            skipped = (program["flops"] == 0) & (program["bytes"] == 0)
            for name in ("flops", "bytes"):
                program.loc[skipped, name] = distinct[name][:].max(axis=0)[skipped]
    return program


def timeline_steps(path):
    """Returns the steps whose timelines are complete, ascending. Raises KeyError if there are none."""
    with reading(path) as file:
        return list(_timeline_rows(path, file))


def read_timeline(path, step=None):
    """Returns the events of a step (default: the last one that has a timeline), sorted by start.

    The data frame has the columns of /timeline (step, rank, instruction, start_s, end_s) and those
    of read_program() for the event's instruction. Ranks that skip an instruction have no row for it.
    Raises KeyError if the step has no timeline, or no complete one yet.
    """
    with reading(path) as file:
        rows = _timeline_rows(path, file)
        if step is None:
            step = max(rows)
        if step not in rows:
            raise KeyError(f"{path}: no timeline of step {step}; there are those of steps "
                           f"{listed(list(rows))}")
        events = pandas.DataFrame({name: data[rows[step]]
                                   for name, data in _columns(path, file, "timeline").items()})
    events = events.join(read_program(path), on="instruction")
    return events.sort_values(["start_s", "rank", "instruction"], ignore_index=True)


def read_prediction(path):
    """Returns the predicted timeline of a step in the form of read_timeline(): times are since the step's
    start, rank is -1. None if the run had no prediction. That of a pipeline has the instructions of all
    stages; busy.prediction_of_stages() tells them apart."""
    program = read_program(path)
    if not {"predicted_start_s", "predicted_s"} <= set(program):
        return None
    events = program.assign(rank=-1, instruction=program.index, start_s=program.predicted_start_s,
                            end_s=program.predicted_start_s + program.predicted_s)
    return events.sort_values(["start_s", "instruction"], ignore_index=True)


def is_plan(path):
    """Returns True if the file should be output of `hidup explain --json`, by its name or by its first
    character."""
    if path.endswith(".json"):
        return True
    try:
        with open(path, "rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    except OSError:
        return False  # reading it gives the reason


def read_plan(path):
    """Reads a file with output of `hidup explain --json`: returns its object, and the predicted timeline in
    the form of read_prediction()."""
    with open(path, encoding="utf-8") as file:
        try:
            plan = json.load(file)
            events = pandas.DataFrame(plan["timeline"])
            events = events.assign(rank=-1, instruction=events.index)
            return plan, events.sort_values(["start_s", "instruction"], ignore_index=True)
        except (ValueError, TypeError, KeyError) as error:
            raise OSError(f"{path}: not what hidup explain --json prints: {error}") from error


def listed(numbers):
    """Returns numbers for a message: all of them, or the first and the last ones of many."""
    texts = [str(number) for number in numbers]
    return ", ".join(texts if len(texts) <= 12 else [*texts[:6], "...", *texts[-3:]])


def _timeline_rows(path, file):
    """Returns the places of the complete timelines: slices of /timeline's rows by step."""
    if "timeline" not in file:
        raise KeyError(f"{path}: holds no timeline")
    length = min(len(data) for data in _columns(path, file, "timeline").values())
    steps, begin, counts = numpy.unique(file["timeline/step"][:length], return_index=True,
                                        return_counts=True)
    # All steps have as many events, so one with fewer is still being written. While the file is being
    # written, the first step is known to be complete where another one follows, or every rank ran every
    # instruction.
    expected = file.attrs["world_size"] * len(part(path, file, "program/name"))
    if len(counts) > 1 or (len(counts) and not file.swmr_mode):
        expected = counts[0]
    whole = counts == expected
    if not whole.any():
        raise KeyError(f"{path}: holds no complete timeline of a step")
    return {int(s): slice(b, b + n) for s, b, n in zip(steps[whole], begin[whole], counts[whole])}


def read_strategy(path):
    """Returns the strategy's text and attributes (name, hash, ...) as a dictionary."""
    with reading(path) as file:
        return {"text": part(path, file, "strategy/text").asstr()[()], **file["strategy"].attrs}


def read_attributes(path):
    """Returns the root attributes as a dictionary."""
    with reading(path) as file:
        return dict(file.attrs)


def read_inputs(path):
    """Returns the texts under /input by name: model_deck, cluster_deck, resolved."""
    with reading(path) as file:
        return {name: text.asstr()[()] for name, text in file.get("input", {}).items()}


def read_memory(path):
    """Returns arrays [ranks] in bytes by name: peak_bytes, parameter_bytes; those that the file has."""
    with reading(path) as file:
        return {name: file[f"ranks/{name}"][:] for name in ("peak_bytes", "parameter_bytes")
                if f"ranks/{name}" in file}
