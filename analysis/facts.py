"""Facts of a run, as one dictionary of numbers and texts per timing file."""

import math
import os

import numpy

from analysis import decks, expert_loads, hidup_timings
from analysis.busy import overlap_ratio

RECENT = 20  # the last loss is the mean over so many steps, as in hidup's output
PREDICTED = ("iteration_s", "compute_s", "comm_s", "exposed_comm_s", "peak_bytes")


def of_run(path):
    """Returns the facts of a timing file, of this file's steps only. Unknown facts are None.

    Times are seconds: wall_s is the median of the steps; compute_s, comm_s, exposed_comm_s and
    overlap are those of busy(), of the rank slowest_rank. idle_s is the rest of the step.
    pipeline_idle_s, of a pipeline, has /ranks/idle_s of all ranks, as means of the same steps.
    wall_over_larger is wall / max(compute, comm): 1 if the shorter stream hides completely.
    """
    attributes = hidup_timings.read_attributes(path)
    frame = hidup_timings.read(path, join=False)
    if frame.empty:
        raise OSError(f"{path}: holds no finished step yet")
    facts = {"file": path, **identity(attributes), **strategy(path), **length(path, frame)}
    facts |= times(frame, hidup_timings.read_spans(path))
    facts |= losses(path, frame, attributes) | memory(path) | loads(path)
    predicted = facts.get("predicted_iteration_s")
    facts["prediction_error"] = predicted / facts["wall_s"] - 1 if predicted else None
    return {name: plain(value) for name, value in facts.items()}


def plain(value):
    """Returns a value for JSON; None for a number that is not finite."""
    if isinstance(value, numpy.generic):
        value = value.item()
    if isinstance(value, numpy.ndarray):
        return [plain(one) for one in value.tolist()]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return None if isinstance(value, float) and not math.isfinite(value) else value


def identity(attributes):
    names = ("model", "device", "world_size", "started_at", "program_version", "git_commit",
             "git_dirty", "command_line", "libraries", "arithmetic", "hostnames",
             "continued_from", "continued_at_step")
    facts = {name: attributes.get(name) for name in names}
    if facts["hostnames"] is not None:
        facts["hosts"] = len(set(facts["hostnames"]))
    return facts


def subject(path):
    """Returns the title of a figure or page about one run, with the file's name."""
    attributes, name = hidup_timings.read_attributes(path), strategy(path)["strategy"]
    world = attributes.get("world_size", "?")
    return (f"{os.path.basename(path)}: {attributes.get('model', '?')}, {name or '?'} on {world} "
            f"rank{'' if world == 1 else 's'} ({attributes.get('device', '?')})")


def strategy(path):
    try:
        attributes = hidup_timings.read_strategy(path)
    except KeyError:
        attributes = {}
    names = ["search_s", "floor_s", *(f"predicted_{name}" for name in PREDICTED)]
    return {"strategy": attributes.get("name"), "strategy_hash": attributes.get("hash"),
            **{name: attributes.get(name) for name in names}}


def length(path, frame):
    planned = decks.value(hidup_timings.read_inputs(path).get("resolved", ""), "train.steps")
    planned = int(planned) if planned and planned.isdecimal() else None
    skipped = int(frame["skipped"].sum()) if "skipped" in frame else None
    return {"steps": len(frame), "first_step": frame.index[0], "last_step": frame.index[-1],
            "planned_steps": planned, "skipped_steps": skipped}


def busy(spans):
    """Returns the busy times that hidup prints for a run, from read_spans(): means over the timed steps, of
    the rank that computed longest in them (slowest_rank), and their overlap ratio. The first step prepares
    much, and counts only if it is the only one. src/cost/busy.h (RunBusyTimes) does the same. Also returns
    pipeline_idle_s [ranks], None where there is no pipeline."""
    timed = numpy.flatnonzero(~numpy.isnan(spans["compute_s"][:, 0]))
    steps = timed[1:] if len(timed) > 1 else timed
    means = {name: values[steps].mean(axis=0) for name, values in spans.items()}
    pipeline_idle = means.pop("idle_s", None)
    rank = int(means["compute_s"].argmax())
    times = {name: values[rank] for name, values in means.items()}
    return {"slowest_rank": rank, **times, "pipeline_idle_s": pipeline_idle,
            "overlap": overlap_ratio(times["comm_s"], times["exposed_comm_s"])}


def times(frame, spans):
    rows = min(len(frame), len(spans["compute_s"]))
    spans = {name: values[:rows] for name, values in spans.items()}
    facts = busy(spans)
    wall = frame["wall_s"].median()
    larger = max(facts["compute_s"], facts["comm_s"])
    rate = (frame["tokens"] / frame["wall_s"]).median() if "tokens" in frame else None
    return {"wall_s": wall, "total_s": frame["wall_s"].sum(), "tokens_per_s": rate,
            **facts,
            "idle_s": max(0.0, wall - facts["compute_s"] - facts["exposed_comm_s"]),
            "wall_over_larger": wall / larger if larger > 0 else None}


def losses(path, frame, attributes):
    validation = hidup_timings.read_validation(path, join=False)
    facts = {"first_loss": frame["loss"].iloc[0],
             "last_loss": frame["loss"].iloc[-RECENT:].mean(skipna=False),
             "last_loss_steps": min(RECENT, len(frame)), "validation_loss": None,
             "validated_step": None, "unigram_entropy": attributes.get("unigram_entropy")}
    if not validation.empty:
        facts["validation_loss"] = validation["loss"].iloc[-1]
        facts["validated_step"] = validation.index[-1]
    return facts


def memory(path):
    return {name: int(values.max()) for name, values in hidup_timings.read_memory(path).items()
            if len(values)}


def loads(path):
    """Returns, for a model with experts, imbalance (greatest load over mean, mean of steps and layers) and
    the share of tokens without a slot."""
    try:
        steps = expert_loads.read(path)
    except KeyError:
        return {}
    chosen = steps["tokens"].sum()
    return {"expert_imbalance": numpy.nanmean(steps["imbalance"]),
            "dropped_share": steps["dropped"].sum() / chosen if chosen else None}


def slow_times(path):
    """Returns the times in which ranks were slow, from read_stragglers(): a list of dictionaries with rank,
    since and until (steps; None: to the end), slower_by and cause."""
    found, now = [], {}
    for row in hidup_timings.read_stragglers(path).itertuples():
        kind = (row.rank, row.cause == "messages")
        if row.over and kind in now:
            now.pop(kind)["until"] = row.since - 1
        elif not row.over:
            now[kind] = {"rank": row.rank, "since": row.since, "until": None,
                         "slower_by": row.slower_by, "cause": row.cause}
            found.append(now[kind])
    return found


def slow_ranks(path, step=None):
    """Returns texts by rank, of the ranks that were slow at this step (default: at any): "50% slower in
    products from step 101 to 200"."""
    texts = {}
    for slow in slow_times(path):
        if step is None or slow["since"] <= step <= (slow["until"] or step):
            until = f" to {slow['until']}" if slow["until"] else ""
            texts.setdefault(slow["rank"], []).append(
                f"{slow['slower_by']:.0%} slower in {slow['cause']} from step {slow['since']}{until}")
    return {rank: ", ".join(those) for rank, those in texts.items()}


def short_names(paths):
    """Returns distinct names for legends and tables: names without ending, with folders where names alone are
    equal."""
    names = [os.path.splitext(os.path.basename(path))[0] for path in paths]
    if len(set(names)) == len(names):
        return names
    common = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    return [os.path.splitext(os.path.relpath(os.path.abspath(path), common))[0] for path in paths]


def seconds(value):
    """Returns a time as text with a fitting unit: "31.85 ms"."""
    if value is None:
        return "–"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if abs(value) * factor >= 1 or unit == "µs":
            return f"{value * factor:.4g} {unit}"
    return None


def size(value):
    """Returns bytes as text: "23.87 MiB"."""
    if value is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            return f"{value:.4g} {unit}"
        value /= 1024
    return None
