"""Prints a run's model, machine and rates, and its times beside the prediction.

The time of a step is the median. Computation, communication, its exposed part and the overlap ratio
(the part of communication that computation hides) are those that the run printed at its end: means of
the rank that computed longest, without the first step, which prepares much. Pipeline idle
(/ranks/idle_s, only of pipelines) is the mean of all ranks, with the least and the greatest of them.
Several files stand side by side. Only a run's own steps count, not those of a run that it resumed.
"""

import json

from analysis import facts
from analysis.facts import seconds, size

HELP = "what ran, how fast, and how that compares with the prediction; runs side by side"


def number(form):
    return lambda value: "–" if value is None else form.format(value)


percent = number("{:.1%}")


def with_steps(run):
    planned = run["planned_steps"]
    last = run["last_step"]
    of = f" (to step {last} of {planned})" if planned and last < planned else ""
    return f"{run['steps']}{of}"


def machine(run):
    hosts = f", {run['hosts']} host{'s' if run['hosts'] > 1 else ''}" if run.get("hosts") else ""
    return f"{number('{}')(run['world_size'])} × {run['device'] or '?'}{hosts}"


def version(run):
    commit = (run["git_commit"] or "")[:10]
    changed = " with changes" if run["git_dirty"] else ""
    return f"{run['program_version'] or '–'} {commit}{changed}".rstrip()


def pipeline_idle(run):
    times = run["pipeline_idle_s"]
    if times is None:
        return "–"
    return f"{seconds(sum(times) / len(times))} ({seconds(min(times))} to {seconds(max(times))})"


def validation(run):
    if run["validation_loss"] is None:
        return "–"
    return f"{run['validation_loss']:.4f} after step {run['validated_step']}"


def last_loss(run):
    if run["last_loss"] is None:
        return "not finite"
    return f"{run['last_loss']:.4f} over {run['last_loss_steps']} steps"


# Headings (None) and the rows below them: the label, and the text from a run's facts.
ROWS = (
    ("run", None),
    ("model", lambda run: run["model"] or "–"),
    ("strategy", lambda run: run["strategy"] or "–"),
    ("ranks", machine),
    ("started", lambda run: run["started_at"] or "–"),
    ("hidup", version),
    ("steps", with_steps),
    ("goes on from", lambda run: run["continued_from"]),
    ("step, measured", None),
    ("time of a step", lambda run: seconds(run["wall_s"])),
    ("tokens/s", lambda run: number("{:,.0f}")(run["tokens_per_s"])),
    ("compute", lambda run: seconds(run["compute_s"])),
    ("communication", lambda run: seconds(run["comm_s"])),
    ("of it exposed", lambda run: seconds(run["exposed_comm_s"])),
    ("idle", lambda run: seconds(run["idle_s"])),
    ("pipeline idle", pipeline_idle),
    ("overlap ratio", lambda run: percent(run["overlap"])),
    ("step / max(compute, communication)", lambda run: number("{:.3f}")(run["wall_over_larger"])),
    ("peak memory", lambda run: size(run.get("peak_bytes"))),
    ("step, predicted", None),
    ("time of a step", lambda run: seconds(run["predicted_iteration_s"])),
    ("against measured", lambda run: number("{:+.1%}")(run["prediction_error"])),
    ("compute", lambda run: seconds(run["predicted_compute_s"])),
    ("communication", lambda run: seconds(run["predicted_comm_s"])),
    ("of it exposed", lambda run: seconds(run["predicted_exposed_comm_s"])),
    ("peak memory", lambda run: size(run["predicted_peak_bytes"])),
    ("search", lambda run: seconds(run["search_s"])),
    ("loss (nats)", None),
    ("first", lambda run: number("{:.4f}")(run["first_loss"])),
    ("last", last_loss),
    ("validation", validation),
    ("entropy of data", lambda run: number("{:.4f}")(run["unigram_entropy"])),
    ("experts", None),
    ("imbalance", lambda run: number("{:.2f}")(run.get("expert_imbalance"))),
    ("dropped", lambda run: percent(run.get("dropped_share"))),
)


def table(runs):
    """Returns rows of (label, texts of the runs), with None for a heading's texts, without rows that no run
    can fill."""
    rows = []
    for label, text in ROWS:
        texts = None if text is None else [text(run) or "–" for run in runs]
        if texts is None and rows and rows[-1][1] is None:
            rows.pop()  # a heading with nothing below it
        if texts is None or any(one != "–" for one in texts):
            rows.append((label, texts))
    return rows[:-1] if rows[-1][1] is None else rows


def text_table(names, runs):
    rows = table(runs)
    widths = [max([len(name), *(len(texts[at]) for _, texts in rows if texts)])
              for at, name in enumerate(names)]
    first = max(len(label) for label, _ in rows) + 4
    lines = [" " * first + "  ".join(f"{name:>{width}}" for name, width in zip(names, widths))]
    for label, texts in rows:
        cells = [f"{text:>{width}}" for text, width in zip(texts or [], widths)]
        indent = "  " if texts else ""
        lines.append(f"{indent + label:{first}}{'  '.join(cells)}".rstrip())
    return "\n".join(lines)


def add_arguments(parser):
    parser.add_argument("files", nargs="+", metavar="FILE", help="timing file of a run")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON object: runs, a list; seconds, bytes, nats")


def run(arguments):
    runs = [facts.of_run(path) for path in arguments.files]
    if arguments.json:
        print(json.dumps({"runs": runs}, indent=1, allow_nan=False))
    else:
        print(text_table(facts.short_names(arguments.files), runs))
