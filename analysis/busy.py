"""Computes the busy times of streams, and the stages of a pipeline, from the events of a step.

`events` are a data frame of hidup_timings.read_timeline(), read_prediction() or read_plan().
"""

import numpy
import pandas

STAGE_STREAMS = ("down", "up")  # carry messages to later and to earlier stages of a pipeline
MESSAGE_STREAMS = ("comm", *STAGE_STREAMS)  # all that communicate


def union(intervals):
    """Returns the times [n, 2] (start, end) that lie in any of the intervals: ascending, disjoint."""
    intervals = numpy.asarray(intervals, dtype=float).reshape(-1, 2)
    start, end = intervals[numpy.argsort(intervals[:, 0], kind="stable")].T
    reached = numpy.maximum.accumulate(end)
    first = numpy.flatnonzero(numpy.append(True, start[1:] > reached[:-1])[:len(start)])
    last = numpy.append(first[1:], len(start)) - 1 if len(first) else first
    return numpy.column_stack([start[first], reached[last]])


def difference(intervals, others):
    """Returns the times in the union of `intervals` and in none of `others`, in the form of union()."""
    intervals, others = union(intervals), union(others)
    # Both cut the axis into pieces, each of which is inside or outside as a whole.
    cuts = numpy.unique(numpy.concatenate([intervals.ravel(), others.ravel()]))
    pieces = numpy.column_stack([cuts[:-1], cuts[1:]])

    def covered(by):
        starts = numpy.searchsorted(by[:, 0], pieces[:, 0], side="right")
        return starts > numpy.searchsorted(by[:, 1], pieces[:, 0], side="right")

    return union(pieces[covered(intervals) & ~covered(others)]) if len(cuts) else union([])


def has_stages(events):
    """Returns True if some of the events are messages between the stages of a pipeline."""
    return bool(events["stream"].isin(STAGE_STREAMS).any())


def stream_intervals(events, *streams):
    """Returns the intervals [n, 2] of the events in streams: "compute", or some of MESSAGE_STREAMS, which may
    overlap each other."""
    return events.loc[events["stream"].isin(streams), ["start_s", "end_s"]].to_numpy()


def exposed_intervals(events, streams=MESSAGE_STREAMS):
    """Returns the intervals [n, 2] in which only communication (on these streams) ran; `events` are those of
    one rank."""
    return difference(stream_intervals(events, *streams), stream_intervals(events, "compute"))


def overlap_ratio(comm_s, exposed_comm_s):
    """Returns the part of communication time that computation hides, over all of it: 1 where all is hidden, 0
    where none is, NaN where nothing was sent. src/cost/busy.h has the same."""
    return (comm_s - exposed_comm_s) / comm_s if comm_s > 0 else numpy.nan


def _length(intervals):
    return (intervals[:, 1] - intervals[:, 0]).sum()


def busy_times(events):
    """Returns the busy times of each rank's streams in a step: a data frame by rank, in seconds.

    Columns: compute_s, comm_s, exposed_comm_s as in /ranks; wall_s, from the step's start to the end of the
    last event that the rank ran; idle_s, the part of it in which nothing ran; overlap, overlap_ratio(). With
    messages between stages also pipeline_idle_s, which is idle_s in /ranks: the part of wall_s in which
    the rank neither computed nor communicated inside its stage.
    """
    rows = {}
    stages = has_stages(events)
    for rank, all_rows in events.groupby("rank"):
        of_rank = all_rows[all_rows["end_s"] > all_rows["start_s"]] if stages else all_rows  # those that ran
        compute, comm, exposed = (
            _length(intervals)
            for intervals in (union(stream_intervals(of_rank, "compute")),
                              union(stream_intervals(of_rank, *MESSAGE_STREAMS)),
                              exposed_intervals(of_rank)))
        wall = of_rank["end_s"].max() - all_rows["start_s"].min()
        rows[rank] = {"compute_s": compute, "comm_s": comm, "exposed_comm_s": exposed,
                      "wall_s": wall, "idle_s": wall - compute - exposed,
                      "overlap": overlap_ratio(comm, exposed)}
        if stages:
            inside = _length(exposed_intervals(of_rank, ("comm",)))
            rows[rank]["pipeline_idle_s"] = wall - compute - inside
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis("rank")


def prediction_of_stages(prediction, events):
    """Tells the stages of a predicted pipeline apart. Returns read_prediction()'s events with a rank below 0
    for each set of ranks that run the same instructions in `events` (of one step; an instruction that a rank
    skips has no length), in the order of their first ranks: -2, -1 for two sets; and these first ranks:
    {-2: 0, -1: 4}. Where every rank runs everything, and without messages between stages: the prediction as
    it is, and {-1: None}."""
    sets = {}
    if has_stages(events):
        for rank, of_rank in events[events["end_s"] > events["start_s"]].groupby("rank"):
            sets.setdefault(frozenset(of_rank["instruction"]), rank)
    if all(len(those) == len(prediction) for those in sets):
        return prediction, {-1: None}
    parts = [prediction[prediction["instruction"].isin(those)].assign(rank=at - len(sets))
             for at, those in enumerate(sets)]
    return (pandas.concat(parts, ignore_index=True),
            {at - len(sets): rank for at, rank in enumerate(sets.values())})
