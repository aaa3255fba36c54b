"""Draws training runs: loss over steps, and where the time of each step went.

Runs from which this one goes on are part of the picture.
"""

from matplotlib.ticker import MaxNLocator

from analysis import figures, hidup_timings

HELP = "loss, learning rate, norm of the gradients and time over the steps"

WALL, COMPUTE, COMM, LOSS, VALIDATION = "#333333", "#2a78b5", "#d9662b", "#2a78b5", "#b03060"


def plot_loss(axes, frame, validation, entropy):
    axes.plot(frame.index, frame["loss"], color=LOSS, label="training loss")
    if not validation.empty:
        axes.plot(validation.index, validation["loss"], color=VALIDATION, marker="o", markersize=4,
                  label="validation loss")
    if entropy is not None:
        axes.axhline(entropy, color="#777777", linestyle="--", label="unigram entropy of the data")
    axes.set_ylabel("loss (nats per target)")
    axes.legend(loc="upper right")


def plot_time(axes, frame, spans, labelled):
    """The step's time, and the busy times of the rank that is busiest over the run."""
    rows = len(frame)
    busy = (spans["compute_s"] + spans["exposed_comm_s"])[:rows]
    slowest = busy.sum(axis=0).argmax()

    def text(label):
        return label if labelled else None

    milliseconds = 1e3
    axes.plot(frame.index, frame["wall_s"] * milliseconds, color=WALL,
              label=text("step (wall time)"))
    ranks = busy.shape[1]
    of_rank = f", rank {slowest} (slowest of {ranks})" if ranks > 1 else ""
    for name, colour, label in (("compute_s", COMPUTE, "computation"),
                                ("comm_s", COMM, "communication")):
        values = spans[name][:rows, slowest] * milliseconds
        axes.plot(frame.index, values, color=colour, label=text(f"{label}{of_rank}"))


def plot_times(axes, path, frame):
    """The times of all runs, whose numbers of ranks may differ; `frame` is of them together."""
    runs = hidup_timings.segments(path)
    for run, last in runs:
        steps = hidup_timings.read(run, join=False)
        steps = steps if last is None else steps[steps.index <= last]
        if not steps.empty:
            # The spans are read last: they have all the rows that the frame has, or more.
            plot_time(axes, steps, hidup_timings.read_spans(run), run == path)
    for number, (_, last) in enumerate(runs[:-1]):
        axes.axvline(last + 0.5, color="#777777", linestyle=":",
                     label="resumed" if number == 0 else None)
    # One slow step (the first, say) must not flatten all the others.
    axes.set_ylim(0, max(1e-3, 1.5e3 * frame["wall_s"].quantile(0.95)))
    axes.set_ylabel("time per step (ms)")
    axes.set_xlabel("step")
    axes.legend(loc="upper right", ncols=3, fontsize="small")


def title(attributes):
    world = attributes["world_size"]
    ranks = f"{world} rank{'s' if world > 1 else ''}"
    return f"{attributes['model']} on {ranks} ({attributes['device']})"


def add_arguments(parser):
    parser.add_argument("file", help="timing file (HDF5) of a run")
    figures.add_out(parser)


def run(arguments):
    path = arguments.file
    attributes = hidup_timings.read_attributes(path)
    frame = hidup_timings.read(path)
    if frame.empty:
        raise OSError(f"{path}: holds no finished step yet")
    figure, (top, bottom) = figures.new(rows=2, size=(9, 7), sharex=True, height_ratios=(3, 2))
    figure.suptitle(title(attributes), fontsize=14)
    plot_loss(top, frame, hidup_timings.read_validation(path), attributes.get("unigram_entropy"))
    plot_times(bottom, path, frame)
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
    figures.save(figure, arguments.out or figures.default_name([path], "loss"))
