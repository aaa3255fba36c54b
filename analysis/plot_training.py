#!/usr/bin/python3
"""Draws a training run: loss over steps, and where the time of each step went.

Runs from which this one goes on are part of the picture. Works on finished files and on those that are still being written. Prints the
picture's name. Needs h5py, pandas and matplotlib.
"""

import argparse
import os

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of the back end)
from matplotlib.ticker import MaxNLocator  # noqa: E402

import hidup_timings  # noqa: E402

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file", help="timing file (HDF5) of a run")
    parser.add_argument("-o", "--output", help="name of the picture; default: beside the file, .png")
    arguments = parser.parse_args()
    output = arguments.output or os.path.splitext(arguments.file)[0] + ".png"

    attributes = hidup_timings.read_attributes(arguments.file)
    frame = hidup_timings.read(arguments.file)
    if frame.empty:
        raise OSError(f"{arguments.file}: holds no finished step yet")

    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False,
                         "axes.grid": True, "grid.alpha": 0.25, "legend.frameon": False,
                         "lines.linewidth": 1.4})
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 7), sharex=True, layout="constrained",
                                         height_ratios=(3, 2))
    figure.suptitle(title(attributes), fontsize=14)
    plot_loss(top, frame, hidup_timings.read_validation(arguments.file),
              attributes.get("unigram_entropy"))
    plot_times(bottom, arguments.file, frame)
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.savefig(output, dpi=150)
    print(output)
    return 0


if __name__ == "__main__":
    hidup_timings.run_script(main)
