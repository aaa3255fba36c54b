"""Draws training runs: loss over steps, below it learning rate, norm of the gradients and time per
step; several runs in the same axes.

The curves include the runs that a file resumed. The time per step of a single file is shown with the
computation and communication on the busiest rank.
"""

import argparse

import pandas
from matplotlib.ticker import MaxNLocator

from analysis import facts, figures, hidup_timings

HELP = "loss, learning rate, norm of the gradients and time over the steps"

ENTROPY = {"color": "#777777", "linestyle": "--", "linewidth": 1.2}
SMOOTHED = 200  # more steps than this are smoothed by default


def mean_of(steps, smooth=None):
    """Returns the number of steps of a mean: the user's choice (None: a hundredth of the steps)."""
    if smooth is not None:
        return min(smooth, steps)
    return steps // 100 if steps > SMOOTHED else 1


def running_mean(values, over):
    """Returns the mean of the last `over` values, of fewer at the start."""
    return pandas.Series(values).rolling(over, min_periods=1).mean().to_numpy()


def draw_line(axes, x, y, label, **style):
    """Draws a curve over steps, with fewer points if they are many, which step_label() says."""
    axes.plot(*figures.thinned(x, y), label=label, **style)


def step_label(steps, *notes):
    """Returns the label of the steps' axis, with notes on curves of so many steps."""
    notes = [note for note in (*notes, figures.thinning(steps)) if note]
    return f"step ({'; '.join(notes)})" if notes else "step"


def draw_loss(axes, path, frame, name, style, smooth):
    """Draws the training loss and, with points, the validation loss. `name` is the run's in the legend, empty
    if there is only one run."""
    prefix = f"{name}: " if name else ""
    over = mean_of(len(frame), smooth)
    losses = frame["loss"]
    if over > 1:
        draw_line(axes, frame.index, losses, None, color=style["color"], alpha=0.25, linewidth=0.8)
        draw_line(axes, frame.index, running_mean(losses, over),
                  f"{prefix}training, running\nmean of {over} steps", **{**style, "marker": None})
    else:
        draw_line(axes, frame.index, losses, f"{prefix}training", **{**style, "marker": None})
    validation = hidup_timings.read_validation(path)
    if not validation.empty:
        own = style["color"] if name else figures.EXPOSED
        axes.plot(validation.index, validation["loss"], color=own, marker=style["marker"],
                  markersize=6, markeredgecolor="black", linewidth=1, label=f"{prefix}validation")


def draw_entropy(axes, paths):
    """Draws a line for the unigram entropy of the data, if the runs have one."""
    values = {path: hidup_timings.read_attributes(path).get("unigram_entropy") for path in paths}
    for number, value in enumerate(sorted({v for v in values.values() if v is not None})):
        axes.axhline(value, label=None if number else "unigram entropy of data", **ENTROPY)


def draw_times(axes, path, frame):
    """Draws the time of a step, and the busy times of the busiest rank of each segment."""
    runs = hidup_timings.segments(path)
    for run, last in runs:
        steps = hidup_timings.read(run, join=False)
        steps = steps if last is None else steps[steps.index <= last]
        if not steps.empty:
            # The spans are read last, so they have at least the frame's rows.
            draw_busy(axes, steps, hidup_timings.read_spans(run), run == path)
    for number, (_, last) in enumerate(runs[:-1]):
        axes.axvline(last + 0.5, color="#777777", linestyle=":",
                     label=None if number else "resumed")
    limit_times(axes, frame["wall_s"].quantile(0.95))


def draw_busy(axes, frame, spans, labelled):
    rank, ranks = facts.busy(spans)["slowest_rank"], spans["compute_s"].shape[1]
    of_rank = f"\nrank {rank} (busiest of {ranks})" if ranks > 1 else ""
    draw_line(axes, frame.index, 1e3 * frame["wall_s"], "step (wall)" if labelled else None,
              color=figures.WALL, linewidth=1)
    for name, label, colour in (("compute_s", "compute", figures.COMPUTE),
                                ("comm_s", "communication", figures.EXPOSED)):
        draw_line(axes, frame.index, 1e3 * spans[name][:len(frame), rank],
                  label + of_rank if labelled else None, color=colour, linewidth=1)


def limit_times(axes, usual):
    """Limits the axis, so that a slow step (the first, for example) does not flatten all others."""
    axes.set_ylim(0, max(1e-3, 1.5e3 * usual))


def title(paths):
    if len(paths) > 1:
        return f"{len(paths)} runs"
    return facts.subject(paths[0])


def draw(paths, log=False, smooth=None):
    """Draws the figure of the files, with means over `smooth` steps."""
    frames = {path: hidup_timings.read(path) for path in paths}
    for path, frame in frames.items():
        if frame.empty:
            raise OSError(f"{path}: holds no finished step yet")
    figure, rows = figures.new(rows=4, size=(11, 10), sharex=True, height_ratios=(4, 1.3, 1.3, 2))
    top, rates, norms, times = rows
    for number, (path, name) in enumerate(zip(paths, facts.short_names(paths))):
        frame, style = frames[path], figures.style_of(number)
        name = name if len(paths) > 1 else ""
        draw_loss(top, path, frame, name, style, smooth)
        style["marker"] = None
        for axes, column in ((rates, "lr"), (norms, "grad_norm")):
            if column in frame:
                draw_line(axes, frame.index, frame[column], None, **style)
        if name:
            draw_line(times, frame.index, 1e3 * frame["wall_s"], f"{name}: step (wall)", **style)
    if len(paths) == 1:
        draw_times(times, paths[0], frames[paths[0]])
    else:
        limit_times(times, max(frame["wall_s"].quantile(0.95) for frame in frames.values()))
    draw_entropy(top, paths)
    for axes, label in ((top, "loss (nats per target)"), (rates, "learning rate"),
                        (norms, "gradients' norm"), (times, "time per step (ms)")):
        axes.set_ylabel(label)
    if log:
        for axes in (top, norms):
            figures.logarithmic(axes, "y")
    for axes in (top, times):
        figures.legend(axes)
    times.set_xlabel(step_label(max(map(len, frames.values()))))
    times.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.align_ylabels()
    figure.suptitle(title(paths))
    return figure


def at_least_one(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number of at least 1")
    return int(text)


def add_arguments(parser):
    parser.add_argument("files", nargs="+", metavar="FILE", help="timing file of a run")
    parser.add_argument("--log", action="store_true", help="loss and norm on logarithmic axes")
    parser.add_argument("--smooth", type=at_least_one, metavar="STEPS",
                        help="draw the mean of so many steps, and the loss itself pale; default: "
                        f"a hundredth of the steps where there are more than {SMOOTHED}")
    figures.add_out(parser)


def run(arguments):
    figure = draw(arguments.files, arguments.log, arguments.smooth)
    figures.save(figure, arguments.out or figures.default_name(arguments.files, "loss"))
