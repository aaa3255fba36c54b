"""Writes an HTML page per run with its figures, tables, decks and strategy.

The page is one file that needs no network. Curves of long runs have fewer points, which the figures
say. A figure for which the file lacks the data is replaced by the reason.
"""

import os

import numpy

from analysis import facts, figures, hidup_timings, page
from analysis.commands import breakdown, experts, loss, roofline, summary, timeline
from analysis.facts import seconds, size

HELP = "one HTML page per run that opens without a network"

MOST_RANKS, MOST_STEPS, MOST_OPERATIONS = 64, 50, 40  # rows of tables

FIGURES = (
    ("Loss and time over the steps", "loss", lambda path: loss.draw([path])),
    ("Where the time of a step goes", "breakdown", lambda path: breakdown.draw([path])),
    ("By kind of instruction", "kinds", lambda path: breakdown.draw([path], "kind")),
    ("By operation", "operations", lambda path: breakdown.draw([path], "operation")),
    ("Timeline of a step", "timeline",
     lambda path: timeline.draw(*timeline.panels_and_heading(path, None, None))),
    ("Roofline", "roofline", lambda path: roofline.draw([path])),
    ("Experts", "experts", lambda path: experts.draw([path])),
)


def without_path(error, path):
    message = str(error.args[0] if isinstance(error, KeyError) else error)
    return message.removeprefix(f"{path}: ")


def drawn(path, title, name, draw):
    try:
        return page.section(title, figures.inline_svg(draw(path), name))
    except (OSError, KeyError, ValueError) as error:
        return page.section(title, page.note(f"Not drawn: {without_path(error, path)}."))


def warnings(run, frame, slow):
    """Returns warnings to read before the numbers, as sentences. slow: facts.slow_ranks()."""
    planned, last, wall = run["planned_steps"], run["last_step"], run["wall_s"]
    long = int((frame["wall_s"] > 2 * wall).sum())
    lost = int((~numpy.isfinite(frame["loss"])).sum())
    error, dropped = run["prediction_error"], run.get("dropped_share")
    found = (
        (planned and last < planned,
         f"The file ends at step {last} of {planned}: the run goes on, was stopped, or was killed."),
        (run["git_dirty"], f"The program was built from changed sources of {run['git_commit']}."),
        (run["continued_from"], f"The run goes on from step {run['continued_at_step']} of "
         f"{run['continued_from']}; numbers of steps and times are of this file only."),
        (run["skipped_steps"], f"{run['skipped_steps']} steps were skipped: their gradients were not "
         "finite."),
        (lost, f"The loss of {lost} steps is not finite."),
        (error is not None and abs(error) > 0.15,
         f"The step takes {seconds(wall)}, but {seconds(run['predicted_iteration_s'])} were "
         "predicted."),
        (20 * long > len(frame), f"{long} of {len(frame)} steps took more than twice the median."),
        (run["idle_s"] > 0.2 * wall, f"The busiest rank is idle for {run['idle_s'] / wall:.0%} of the "
         "step."),
        (dropped and dropped > 0.1, f"{dropped or 0:.0%} of the tokens found no slot at an expert."),
        *((True, f"Rank {rank} was {text}.") for rank, text in slow.items()),
    )
    return [sentence for holds, sentence in found if holds]


def facts_table(run):
    return page.table(None, [[label] if texts is None else [label, texts[0]]
                             for label, texts in summary.table([run])])


def steps_table(frame):
    every = -(-len(frame) // MOST_STEPS)
    columns = [(name, label, form) for name, label, form in (
        ("loss", "loss (nats)", "{:.4f}"), ("lr", "learning rate", "{:.3g}"),
        ("grad_norm", "gradients' norm", "{:.4g}"), ("tokens", "tokens", "{:,.0f}"),
        ("wall_s", "wall (s)", "{:.4g}"), ("compute_s_max", "compute, slowest (s)", "{:.4g}"),
        ("comm_s_max", "communication, slowest (s)", "{:.4g}")) if name in frame]
    rows = [[step, *(form.format(row[name]) for name, _, form in columns)]
            for step, row in frame.iloc[::every].iterrows()]
    title = f"Every {every}th of {len(frame):,} steps" if every > 1 else f"All {len(frame)} steps"
    return page.fold(title, page.table(["step", *(label for _, label, _ in columns)], rows))


def ranks_table(path, run):
    spans, memory = hidup_timings.read_spans(path), hidup_timings.read_memory(path)
    hosts = run["hostnames"] or []
    ranks = spans["compute_s"].shape[1]
    slow = facts.slow_ranks(path)
    rows = []
    for rank in range(min(ranks, MOST_RANKS)):
        times = [seconds(float(numpy.median(values[:, rank]))) for values in spans.values()]
        sizes = [size(int(values[rank])) for values in memory.values() if rank < len(values)]
        rows.append([rank, hosts[rank] if rank < len(hosts) else "–", *times, *sizes,
                     *([slow.get(rank, "–")] if slow else [])])
    head = ["rank", "host", "compute", "communication", "of it exposed",
            *(["pipeline idle"] if "idle_s" in spans else []),
            *(name.removesuffix("_bytes") + " memory" for name in memory),
            *(["slow"] if slow else [])]
    some = f"the first {MOST_RANKS} of {ranks} ranks" if ranks > MOST_RANKS else f"{ranks} ranks"
    return page.fold(f"Per rank: {some}, medians of the steps", page.table(head, rows))


def operations_table(path):
    try:
        times = breakdown.grouped(path, "operation").sort_values("measured_s", ascending=False)
    except (OSError, KeyError) as error:
        return page.note(f"No table of operations: {without_path(error, path)}.")
    rows = [[name, seconds(row["measured_s"]),
             seconds(row["predicted_s"]) if "predicted_s" in row else "–"]
            for name, row in times.head(MOST_OPERATIONS).iterrows()]
    title = f"{len(rows)} of {len(times)} operations, time per step"
    return page.fold(title, page.table(["operation", "measured", "predicted"], rows))


def inputs(path, run):
    texts = hidup_timings.read_inputs(path)
    parts = [page.folded(title, texts[name]) for name, title in
             (("model_deck", "Model deck"), ("cluster_deck", "Cluster deck"),
              ("resolved", "All values of both decks")) if name in texts]
    if run["strategy"]:
        parts.append(page.folded(f"Strategy {run['strategy']}",
                                 hidup_timings.read_strategy(path)["text"]))
    attributes = hidup_timings.read_attributes(path)
    lines = [f"{name}: {value}" for name in ("libraries", "environment")
             for value in attributes.get(name, [])]
    return [*parts, page.folded("Libraries and environment", "\n".join(lines))]


def report(path):
    """Returns the page of a run."""
    run = facts.of_run(path)
    frame = hidup_timings.read(path, join=False)
    title = facts.subject(path)
    known = warnings(run, frame, facts.slow_ranks(path))
    return page.page(title, [
        f"<h1>{page.text(title)}</h1>",
        page.note(f"{run['command_line'] or ''}"),
        page.section("Warnings", page.bullets(known)) if known else "",
        page.section("Summary", page.note(
            "Medians of the steps; of the rank that was busiest over the run."), facts_table(run)),
        *(drawn(path, *figure) for figure in FIGURES if figure[1] != "experts"
          or "expert_imbalance" in run),
        page.section("Tables", steps_table(frame), ranks_table(path, run), operations_table(path)),
        page.section("Inputs", *inputs(path, run))])


def add_arguments(parser):
    parser.add_argument("files", nargs="+", metavar="FILE", help="timing file of a run")
    parser.add_argument("-o", "--out", metavar="PAGE.html",
                        help="of a single file; default: beside each file, -report.html")


def run(arguments):
    if arguments.out and len(arguments.files) > 1:
        raise ValueError("-o: several files have several pages")
    for path in arguments.files:
        text = report(path)
        out = arguments.out or os.path.splitext(path)[0] + "-report.html"
        with open(out, "w", encoding="utf-8") as file:
            file.write(text)
        print(out)
