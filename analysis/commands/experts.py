"""Draws the router's distribution of the tokens over the experts.

For one file: a map of every expert's load over the steps (1 is an even share), and by layer the
imbalance, which is the greatest load over the mean, and the share of tokens without a slot. For
several files: the two curves for the mean of the layers.
"""

import numpy
from matplotlib.colors import TwoSlopeNorm
from matplotlib.ticker import MaxNLocator, PercentFormatter

from analysis import expert_loads, facts, figures
from analysis.commands import loss

HELP = "load of every expert over the steps, imbalance, dropped tokens"

SHOWN_LAYERS = 6  # with their own curves; more layers get the mean and the range


def read(path):
    loads = expert_loads.read(path)
    if not len(loads["step"]):
        raise OSError(f"{path}: holds no finished step yet")
    with numpy.errstate(invalid="ignore", divide="ignore"):
        loads["share"] = loads["dropped"] / loads["tokens"]
    return loads


def draw_map(figure, axes, loads):
    """Draws experts, grouped by layer, over steps; a cell is the mean of a stretch of steps."""
    values = loads["load"]
    stretches, layers, experts = values.shape
    edges = numpy.append(loads["load_step"], loads["step"][-1] + 1) - 0.5
    norm = TwoSlopeNorm(1.0, vmin=0.0, vmax=max(2.0, numpy.nanmax(values, initial=0.0)))
    mesh = axes.pcolormesh(edges, numpy.arange(layers * experts + 1) - 0.5,
                           values.reshape(stretches, -1).T, cmap="PuOr_r", norm=norm, rasterized=True)
    for layer in range(1, layers):
        axes.axhline(layer * experts - 0.5, color="black", linewidth=0.8)
    if layers > 1:
        axes.set_yticks([(layer + 0.5) * experts - 0.5 for layer in range(layers)],
                        [f"MoE layer {layer}" for layer in range(layers)], fontsize=9)
        axes.set_ylabel(f"{experts} experts of each layer")
    else:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel("expert")
    axes.grid(visible=False)
    axes.invert_yaxis()
    each = -(-len(loads["step"]) // stretches)
    bar = figure.colorbar(mesh, ax=axes, pad=0.01, aspect=30)
    bar.set_label("tokens over even share" + (f"\n(mean of {each} steps)" if each > 1 else ""))


def curves(loads, name):
    """Returns (label, imbalance [n], dropped share [n]) of the layers or, if they are many, their mean."""
    layers = loads["imbalance"].shape[1]
    if not name and layers <= SHOWN_LAYERS:
        return [(f"MoE layer {layer}", loads["imbalance"][:, layer], loads["share"][:, layer])
                for layer in range(layers)]
    with numpy.errstate(invalid="ignore", divide="ignore"):
        dropped = loads["dropped"].sum(axis=1) / loads["tokens"].sum(axis=1)
    label = name or f"mean of {layers} MoE layers"
    return [(label, loads["imbalance"].mean(axis=1), dropped)]


def draw_range(axes, loads):
    """Draws a band from the least to the greatest layer around a single run's mean."""
    for one, name in zip(axes, ("imbalance", "share")):
        values = loads[name]
        stretch = -(-len(values) // figures.MOST_POINTS)
        begins = range(0, len(values), stretch)
        low, high = ([limit(values[at:at + stretch]) for at in begins]
                     for limit in (numpy.nanmin, numpy.nanmax))
        one.fill_between(loads["step"][::stretch], low, high, color=figures.COLOURS[0], alpha=0.2,
                         linewidth=0, label="range of these layers")


def draw_curves(axes, loads, name, first):
    if not name and loads["imbalance"].shape[1] > SHOWN_LAYERS:
        draw_range(axes, loads)
    for number, (label, imbalance, dropped) in enumerate(curves(loads, name), start=first):
        style = {**figures.style_of(number), "marker": None, "linewidth": 1}
        over = loss.mean_of(len(imbalance))
        loss.draw_line(axes[0], loads["step"], loss.running_mean(imbalance, over), label, **style)
        loss.draw_line(axes[1], loads["step"], loss.running_mean(dropped, over), None, **style)


def draw(paths):
    files = [read(path) for path in paths]
    if len(paths) == 1:
        _, layers, experts = files[0]["load"].shape
        height = min(9.0, max(2.5, 0.09 * layers * experts))
        figure, (top, *rows) = figures.new(rows=3, size=(11, height + 4.5), sharex=True,
                                           height_ratios=(height, 2, 2))
        draw_map(figure, top, files[0])
    else:
        figure, rows = figures.new(rows=2, size=(11, 6), sharex=True)
    for number, (loads, name) in enumerate(zip(files, facts.short_names(paths))):
        draw_curves(rows, loads, name if len(paths) > 1 else "", number)
    rows[0].set_ylabel("imbalance\n(greatest over mean)")
    rows[1].set_ylabel("dropped tokens")
    rows[1].yaxis.set_major_formatter(PercentFormatter(1.0))
    rows[1].set_ylim(bottom=0)
    steps = max(len(loads["step"]) for loads in files)
    over, up_to = loss.mean_of(steps), "up to " if len(paths) > 1 else ""
    rows[1].set_xlabel(loss.step_label(
        steps, f"curves: running mean of {up_to}{over} steps" if over > 1 else ""))
    rows[1].xaxis.set_major_locator(MaxNLocator(integer=True))
    figures.legend(rows[0])
    figure.align_ylabels()
    figure.suptitle(loss.title(paths))
    return figure


def add_arguments(parser):
    parser.add_argument("files", nargs="+", metavar="FILE",
                        help="timing file of a run of a model with experts")
    figures.add_out(parser)
    parser.add_argument("--loads", metavar="TEXT", help=(
        "also write the loads of the first file's second half of steps, a line per layer, "
        "for model.moe.load"))


def write_loads(timing_file, path):
    """Writes the mean load of every expert over the second half of the steps, a layer a line."""
    loads = read(timing_file)["load"]
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"# tokens of each expert over the mean of its layer, from {timing_file}\n")
        for layer in numpy.nanmean(loads[len(loads) // 2:], axis=0):
            out.write(" ".join(f"{tokens:.6g}" for tokens in layer) + "\n")
    print(path)


def run(arguments):
    if arguments.loads:
        write_loads(arguments.files[0], arguments.loads)
    figure = draw(arguments.files)
    figures.save(figure, arguments.out or figures.default_name(arguments.files, "experts"))
