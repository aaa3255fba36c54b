"""Draws what a strategy loses that was searched for with wrong times: how much longer a step takes
than with the strategy of right times, over the size of the errors. A line is the mean of the
draws, a point one of them.

FOLDER: of jobs/experiments/run.py noise. What is predicted is beside how much longer the named
strategies take, each in the number of microbatches that is best for it: a search that is no better
than the best of them would be of no use.
"""

import statistics

from analysis import experiments, figures

HELP = "an experiment's loss by errors in the times that a search rests on"

NAMED = ("ep-deepspeed", "ep-fastmoe", "fsdp", "dp")
MOST_LOSS = 120  # %: beyond it a named strategy is only printed
YARDSTICK = {"color": "#777777", "linewidth": 1.0}


def losses(points):
    """{level: [relative loss per draw]} against the median of level 0."""
    levels = experiments.groups(points, lambda point: point["at"]["level"])
    if 0 not in levels:
        raise OSError("no run without noise to compare with (level 0)")
    right = statistics.median(point["wall_s"] for point in levels[0])
    return {level: [point["wall_s"] / right - 1 for point in some]
            for level, some in sorted(levels.items())}, right


def draw_panel(axes, title, points, number):
    print(" ".join(title.split("\n")))
    parts = experiments.groups(points, lambda point: point["at"].get("part", "both"))
    for offset, (part, own) in enumerate(parts.items()):
        found, _ = losses(own)
        levels = [100 * level for level in found]
        means = [100 * statistics.mean(draws) for draws in found.values()]
        style = figures.style_of(number + offset)
        label = {"both": "search (strategy and Duplex)",
                 "strategy-only": "strategy only"}.get(part, part)
        axes.plot(levels, means, label=label, **style)
        for level, draws in found.items():
            aside = 100 * level + 1.5 * (2 * offset - 1)
            axes.scatter([aside] * len(draws), [100 * draw for draw in draws], s=14, alpha=0.5,
                         color=style["color"], marker=style["marker"], linewidths=0)
            print(f"  {label}, noise {level:.0%}: mean {statistics.mean(draws):+.2%}, worst "
                  f"{max(draws):+.2%} of {len(draws)}")
    axes.set_title(title, fontsize=11)
    axes.set_xlabel("error of the times, up to (%)")


def draw_yardstick(axes, points):
    """The named strategies, of the runs with both parts: their microbatches are free."""
    both = [point for point in points if point["at"].get("part", "both") == "both"]
    _, right = losses(both)
    worst = axes.get_ylim()[1]
    for name in NAMED:
        candidate = (both[0]["candidates"] or {}).get(name)
        if not candidate:
            continue
        loss = 100 * (candidate["predicted_iteration_s"] / right - 1)
        print(f"  {name}: {loss:+.1f} %")
        if loss < MOST_LOSS:
            axes.axhline(loss, linestyle="--", **YARDSTICK)
            axes.text(1.01, loss, f"{name} {loss:+.0f} %", transform=axes.get_yaxis_transform(),
                      va="center", fontsize=9, color="#555555")
            worst = max(worst, 1.08 * loss)
    axes.set_ylim(top=worst)


def draw(points):
    titled = experiments.panels(points)
    figure, axes = figures.new(columns=len(titled), size=(2 + 5.5 * len(titled), 4.2), squeeze=False)
    for panel, (title, some) in zip(axes[0], titled):
        draw_panel(panel, title, some, 0)
        if some[0]["how"] == experiments.PREDICTED:
            draw_yardstick(panel, some)
        panel.legend(loc="upper left", bbox_to_anchor=(0, -0.16), fontsize="small", ncols=2)
    axes[0][0].set_ylabel("longer than with right times (%)")
    return figure


def add_arguments(parser):
    experiments.add_folders(parser)
    figures.add_out(parser)


def run(arguments):
    points = experiments.only(experiments.read(arguments.folders), "level", "seed")
    points = [point for point in points if not point["infeasible"]]
    figures.save(draw(points), experiments.out_of(arguments, "noise"))
