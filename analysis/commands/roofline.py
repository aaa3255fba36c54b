"""Draws the rates of the computation against the machine's limits.

A point is an instruction of a layer-independent name (forward, backward or update): its flops per
byte of its operands, and the flops per second that it reached, the median over the steps with a
timeline (without the first) of the mean over the ranks that ran it. Its area is its share of the
computation's time. Lines are the machine's peaks: those of the profile (--profile: its best
operations), or those of the run's cluster deck, which may be guesses; and, dotted, the run's best
rates. Operations without flops (copies, for example) and those below a thousandth of the time are
not drawn; the title has their share of the time.
"""

import os

import numpy

from analysis import decks, facts, figures, hidup_timings
from analysis.commands import breakdown

HELP = "flops per byte and per second of the operations against the machine's peaks"

NAMED = 8  # the operations with the largest share of the time
PHASES = "forward backward update"  # in this order
LEAST = 1e-3  # the smallest share of the time that is drawn
LARGEST = 2500  # points squared, of an operation that takes all the time
BESIDE, APART = 26, 11  # points: from a point to its number, between numbers


def operations(path):
    """Returns the computation by operation and phase: a data frame with count, flops and bytes of one
    instruction (means), rate in flop/s, intensity in flop/byte and share of the computation's time."""
    program = breakdown.instruction_times(path)
    for name in ("flops", "bytes"):
        if name not in program:
            raise KeyError(f"{path}: no /program/{name}: its format is too old for a roofline")
    program = program[(program["stream"] == "compute") & (program["measured_s"] > 0)]
    amounts = ["flops", "bytes", "measured_s"]
    program = program[amounts].mul(program["part"], axis=0).assign(
        operation=breakdown.operations_of(program), phase=program["phase"])
    total = program["measured_s"].sum()
    table = program.groupby(["operation", "phase"], as_index=False)[amounts].sum()
    return table.assign(rate=table["flops"] / table["measured_s"],
                        traffic=table["bytes"] / table["measured_s"],
                        intensity=table["flops"] / table["bytes"].clip(lower=1),
                        share=table["measured_s"] / total)


def peaks(path, profile):
    """Returns (flop/s, byte/s, their source); the numbers may be None."""
    if profile:
        return (*decks.profile_rates(profile), f"best of profile {os.path.basename(profile)}")
    resolved = hidup_timings.read_inputs(path).get("resolved", "")
    known = decks.value(resolved, "cluster.profile")
    if known and os.path.isfile(known.strip('"')):
        return peaks(path, known.strip('"'))
    flops, memory = (decks.quantity(decks.value(resolved, f"cluster.device.{name}"))
                     for name in ("flops", "memory_bandwidth"))
    return flops, memory, "the cluster deck's (may be a guess)"


def draw_roof(axes, reach, flops, memory, label, **style):
    """Draws the roof over intensities [first, last]: min(flops, memory * intensity)."""
    intensity = numpy.geomspace(*reach, 200)
    roof = numpy.full(200, numpy.inf)
    if memory:
        roof = numpy.minimum(roof, memory * intensity)
    if flops:
        roof = numpy.minimum(roof, flops)
    rates = [f"{rate / 1e9:.4g} {unit}" for rate, unit in ((flops, "Gflop/s"), (memory, "GB/s"))
             if rate]
    if rates:
        axes.plot(intensity, roof / 1e9, label=f"{label}:\n{', '.join(rates)}", **style)


def reach_of(tables, roofs):
    """Returns the figure's range of intensities: all points and the corners of the roofs."""
    values = [value for table in tables for value in table["intensity"]]
    values += [flops / memory for flops, memory, _ in roofs if flops and memory]
    return 0.5 * min(values), 2 * max(values)


def draw_points(axes, table, name, style):
    axes.scatter(table["intensity"], table["rate"] / 1e9, s=12 + LARGEST * table["share"],
                 facecolor=style["color"], edgecolor="white", linewidth=0.5, alpha=0.7,
                 marker=style["marker"])
    axes.scatter([], [], s=40, color=style["color"], marker=style["marker"], label=name)


def name_largest(axes, table):
    """Numbers the operations with the largest share of the time; a legend has their names."""
    largest = table.nlargest(NAMED, "share").reset_index(drop=True)
    for number, row in largest.iterrows():
        axes.plot([], [], " ", label=f"{number + 1}  {row['operation']} ({row['share']:.1%})")
    axes.figure.canvas.draw()  # fixes the places of the points
    below = {}  # the lowest number at a place, in points
    for number, row in largest.sort_values("rate", ascending=False).iterrows():
        place = axes.transData.transform((row["intensity"], row["rate"] / 1e9))
        across, upward = place * 72 / axes.figure.dpi
        column = round(across / (2 * BESIDE))
        height = min(upward + APART, below.get(column, numpy.inf) - APART)
        below[column] = height
        axes.annotate(str(number + 1), (row["intensity"], row["rate"] / 1e9),
                      (-BESIDE, height - upward), textcoords="offset points", fontsize=9,
                      fontweight="bold", ha="center", va="center",
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
                      arrowprops={"arrowstyle": "-", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0})


def draw(paths, profile=None):
    tables = [operations(path) for path in paths]
    for path, table in zip(paths, tables):
        if not (table["flops"] > 0).any():
            raise OSError(f"{path}: no instruction with flops was timed")
    counted = [table[(table["flops"] > 0) & (table["share"] >= LEAST)] for table in tables]
    roofs = list(dict.fromkeys(peaks(path, profile) for path in paths))
    reach = reach_of(counted, roofs)
    figure, axes = figures.new(size=(11.5, 6.5))
    for number, (flops, memory, source) in enumerate(roofs):
        draw_roof(axes, reach, flops, memory, f"peaks, {source}", color=figures.WALL,
                  linestyle=figures.LINES[number % 2])
    draw_roof(axes, reach, max(table["rate"].max() for table in tables),
              max(table["traffic"].max() for table in tables), "best seen in the run"
              if len(paths) == 1 else "best seen in the runs", color="#777777", linestyle=":")
    phases = sorted({phase for table in counted for phase in table["phase"]}, key=PHASES.find)
    groups = [(table[table["phase"] == phase], phase) for table in counted for phase in phases]
    if len(paths) > 1:
        groups = list(zip(counted, facts.short_names(paths)))
    for number, (table, name) in enumerate(groups):
        draw_points(axes, table, f"{name}, measured", figures.style_of(number))
    figures.logarithmic(axes, "xy")
    axes.set_xlabel("flops per byte of the operands (flop/byte)")
    axes.set_ylabel("flops per second of a rank (Gflop/s)")
    missing = max(1 - table["share"].sum() for table in counted)
    subject = breakdown.title(paths) if len(paths) == 1 else f"Operations of {len(paths)} runs"
    axes.set_title(f"{subject}\narea: share of the computation's time; not drawn: {missing:.1%} of it"
                   f"{' at most' if len(paths) > 1 else ''}")
    if len(paths) == 1:
        name_largest(axes, counted[0])
    figures.legend(axes, labelspacing=0.8)
    return figure


def add_arguments(parser):
    parser.add_argument("files", nargs="+", metavar="FILE", help="timing file of a run")
    parser.add_argument("--profile", metavar="PROFILE.yaml",
                        help="peaks of this profile (hidup profile) instead of the cluster deck's")
    figures.add_out(parser)


def run(arguments):
    figure = draw(arguments.files, arguments.profile)
    figures.save(figure, arguments.out or figures.default_name(arguments.files, "roofline"))
