"""Draws how a run changed the ranks' shares of the work (train.adapt): the time of every step with the
changes that were tried, and below it the part of the work that each rank computed.
"""

import numpy
from matplotlib.ticker import MaxNLocator, PercentFormatter

from analysis import facts, figures, hidup_timings

HELP = "the ranks' shares of the work over the steps, with the changes that a run tried"

VERDICTS = {True: ("kept", "#009e73", "-"), False: ("undone", "#c8102e", "--")}
NAMED = 12  # ranks in the legend; more are drawn without names


def courses(trials, start, last):
    """Returns the steps at which shares begin or end, and the shares from each to the next: arrays [n + 1] and
    [n, ranks]. trials, start: of hidup_timings.read_adapt(); last: the run's last step."""
    begins, shares = [1], [start]
    for trial in trials.itertuples():
        begins.append(trial.step)
        shares.append(trial.shares)
        if not trial.kept:
            begins.append(trial.last + 1)
            shares.append(shares[-2])
    return numpy.array([*begins, last + 1]), numpy.array(shares)


def draw(path):
    frame = hidup_timings.read(path, join=False)
    trials, start = hidup_timings.read_adapt(path)
    if start is None:
        raise OSError(f"{path}: its run did not adapt (train.adapt)")
    if frame.empty:
        raise OSError(f"{path}: holds no finished step yet")
    figure, (times, parts) = figures.new(rows=2, size=(10, 6.5), sharex=True)
    times.plot(*figures.thinned(frame.index, 1e3 * frame["wall_s"]), color=figures.WALL, linewidth=1,
               label="step (wall)")
    told = set()
    for trial in trials.itertuples():
        verdict, colour, line = VERDICTS[trial.kept]
        label = None if verdict in told else f"change, {verdict}"
        told.add(verdict)
        for axes in (times, parts):
            axes.axvline(trial.step, color=colour, linestyle=line, label=label if axes is times else None)
    times.set_ylim(0, 1.5e3 * frame["wall_s"].quantile(0.95))
    times.set_ylabel("time per step (ms)")
    figures.legend(times)
    at, shares = courses(trials, start, frame.index[-1])
    bottom = numpy.zeros(len(shares))
    for rank in range(shares.shape[1]):
        parts.fill_between(at, numpy.append(bottom, bottom[-1]),
                           numpy.append(bottom + shares[:, rank], bottom[-1] + shares[-1, rank]),
                           step="post", color=figures.COLOURS[rank % len(figures.COLOURS)],
                           edgecolor="white", label=f"rank {rank}" if rank < NAMED else None)
        bottom += shares[:, rank]
    parts.set_ylim(0, 1)
    parts.set_ylabel("part of the work")
    parts.yaxis.set_major_formatter(PercentFormatter(1))
    parts.xaxis.set_major_locator(MaxNLocator(integer=True))
    parts.set_xlabel("step")
    figures.legend(parts)
    figure.suptitle(facts.subject(path))
    return figure


def add_arguments(parser):
    parser.add_argument("file", metavar="FILE", help="timing file of a run with train.adapt")
    figures.add_out(parser)


def run(arguments):
    figures.save(draw(arguments.file), arguments.out or figures.default_name([arguments.file], "shares"))
