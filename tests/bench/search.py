#!/usr/bin/env python3
"""Time and memory of `hidup search`, whole process, by the number of layers and for unequal devices; and,
for every shipped model on every shipped cluster, the gap of its result to its lower bound, and beside it the fastest
strategy with a name, on two axes with a name per axis. Needs only the program; half an hour. Prints,
asserts nothing.

    python3 tests/bench/search.py [--binary build/hidup] [--repetitions 5] [--no-speed]
                                  [--only REGEX] [--level fast|default|thorough]

The least of the repetitions counts: other work on the machine only adds to it. search_s is the
program's own time up to the strategy, of one run for the models and clusters; process is the whole
time as the shell sees it, and "its cores" the CPU time. Devices have memory enough for 1,000 layers.
--only: models and clusters whose "MODEL CLUSTER" the expression finds. A gap with a star: the strategy
sends all gradients at the end, for which no bound is known; it and the objective are those of a search
that may not. Named strategies come from a search that simulates all; the compared search simulates few.
"""

import argparse
import json
import pathlib
import re
import resource
import subprocess
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MODELS = SOURCE / "inputs" / "models"
CLUSTERS = SOURCE / "inputs" / "clusters"
MANY = "v100-8x8-10gbps-flat"  # 64 devices
# A deck whose data are not shipped, and clusters without a mesh.
WITHOUT = ["gpt2-124m-finetune", "h200-1", "laptop"]
NOTHING_FITS = 3
# Models that are searched on unequal devices.
UNEQUAL = ["bert", "vit", "bert-sgmoe", "vit-sgmoe", "gpt2-124m"]


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def search(binary, deck, cluster, repetitions, *args):
    """Returns the JSON result of the fastest of the runs, with process_s. `cluster`: a shipped one, or a file."""
    results = []
    cluster = CLUSTERS / f"{cluster}.yaml" if isinstance(cluster, str) else cluster
    for _ in range(repetitions):
        began, used = time.monotonic(), cpu_seconds()
        output = subprocess.run(
            [binary, "search", deck, "--cluster", cluster, "--json", *args],
            check=True, capture_output=True, text=True).stdout
        results.append({**json.loads(output), "process_s": time.monotonic() - began,
                        "cpu_s": cpu_seconds() - used})
    return min(results, key=lambda result: result["search_s"])


def different_layers(binary, folder, layers):
    """Returns a deck of bert-sgmoe whose layers all have another width of the feed-forward network."""
    text = subprocess.run([binary, "graph", MODELS / "bert-sgmoe.yaml", "--set",
                           f"model.layers={layers}"],
                          check=True, capture_output=True, text=True).stdout
    lines = []
    for line in text.splitlines():
        layer = re.search(r"\blayers\.(\d+)\.", line)
        width = 3072 - 8 * int(layer[1]) if layer else 3072
        lines.append(re.sub(r"\b3072\b", str(width), line))
    (folder / "graph.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    deck = folder / "different.yaml"
    deck.write_text("model: {graph: graph.txt, sequence: 128, vocab: 33278}\n"
                    "data: {kind: synthetic}\n"
                    "train: {batch: 256, steps: 1}\n", encoding="utf-8")
    return deck


def ten_classes(folder):
    """Returns a cluster deck of 64 machines with 8 devices, in ten classes."""
    lines = ["cluster:", "  device: {kind: cuda, memory: 15GiB}", "  devices:"]
    for number in range(10):
        machines = 7 if number < 4 else 6
        lines.append(f"    - {{count: {8 * machines}, flops: {15.7 - 0.6 * number:.1f}TFLOPS, "
                     f"memory_bandwidth: {900 - 20 * number}GB/s}}")
    lines += ["  mesh:",
              "    - {name: node, size: 64, bandwidth: 10.4Gbps, shared: 8, latency: 30us}",
              "    - {name: gpu, size: 8, bandwidth: 80GB/s, latency: 10us}"]
    deck = folder / "ten.yaml"
    deck.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return deck


def print_times(title, binary, repetitions, cases):
    """Prints a row for each case (name, model deck, cluster, further arguments)."""
    print(f"| {title} | search_s | process | its cores | peak | gap |\n|---|---|---|---|---|---|")
    for name, deck, cluster, args in cases:
        result = search(binary, deck, cluster, repetitions, *args)
        gap = "none" if result["gap"] is None else f"{100 * result['gap']:.1f} %"
        print(f"| {name} | {result['search_s'] * 1e3:.0f} ms "
              f"| {result['process_s'] * 1e3:.0f} ms | {result['cpu_s'] * 1e3:.0f} ms "
              f"| {result['peak_rss_bytes'] / 2**20:.0f} MiB | {gap} |",
              flush=True)
    print()


def print_speed(binary, repetitions):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cases = [(f"{layers} layers", MODELS / "bert-sgmoe.yaml", MANY,
                  ["--set", f"model.layers={layers}", "--set", "cluster.device.memory=1TiB"])
                 for layers in (8, 12, 48, 1000)]
        cases.append(("48 layers that differ", different_layers(binary, folder, 48), MANY, []))
        print_times("bert-sgmoe, 64 devices", binary, repetitions, cases)
        for title, cluster in [("16 V100 and 48 P100", "v100p100-2x8-6x8"),
                               ("512 devices in 10 classes", ten_classes(folder))]:
            print_times(title, binary, repetitions,
                        [(model, MODELS / f"{model}.yaml", cluster, []) for model in UNEQUAL])


def fastest_name(found):
    """Returns (seconds, name) of the fastest strategy with a name; None where none fits."""
    return min(((plan["predicted_iteration_s"], name) for name, plan in found["baselines"].items()
                if plan["feasible"] and name != "search"), default=None)


def quality(binary, model, cluster, level, hints):
    """Returns the row of one search, and the excess of the fastest named strategy; None where nothing fits in
    the memory."""
    deck = MODELS / f"{model}.yaml"
    try:
        found = search(binary, deck, cluster, 1, "--level", level)
        named = fastest_name(search(binary, deck, cluster, 1, "--level", "fast", "--baselines"))
    except subprocess.CalledProcessError as error:
        if error.returncode != NOTHING_FITS:
            raise RuntimeError(error.stderr) from error
        return f"| {model} | {cluster} | nothing fits in the memory |||||||", None
    proven, mark = found, ""
    if found["gap"] is None and level != "fast":
        proven = search(binary, deck, cluster, 1, "--level", level, "--hints", hints)
        mark = " *"
    bound, gap = "", ""
    if proven["gap"] is not None:
        bound = f"{proven['lower_bound_s'] * 1e3:.1f} ms"
        gap = f"{100 * proven['gap']:.1f} %{mark}"
    predicted = found["predicted_iteration_s"]
    slower = named[0] / predicted - 1.0 if named else None
    beside = f"{named[1]}, {100 * slower:+.1f} %" if named else "none fits"
    return (f"| {model} | {cluster} | {predicted * 1e3:.1f} ms "
            f"| {proven['objective_s'] * 1e3:.1f} ms | {bound} | {gap} | {level} "
            f"| {found['search_s']:.2f} s | {beside} |"), slower


def print_quality(binary, only, level):
    print("\n| model | cluster | predicted | by the objective | lower bound | gap | level | search_s "
          "| fastest name |\n|---|---|---|---|---|---|---|---|---|")
    models = [*MODELS.glob("*.yaml"), *MODELS.glob("paper/*.yaml")]
    slower = []
    with tempfile.TemporaryDirectory() as folder:
        hints = pathlib.Path(folder) / "hints.yaml"
        hints.write_text("gradients: overlapped\n", encoding="utf-8")
        for deck in sorted(models):
            model = str(deck.relative_to(MODELS).with_suffix(""))
            for cluster in sorted(file.stem for file in CLUSTERS.glob("*.yaml")):
                if model in WITHOUT or cluster in WITHOUT or not only.search(f"{model} {cluster}"):
                    continue
                row, by = quality(binary, model, cluster, level, hints)
                print(row, flush=True)
                slower += [by] if by is not None else []
    most = -min(slower, default=0.0)
    print(f"\n{len(slower)} searches beside named strategies; the fastest name is faster in "
          f"{sum(by < 0.0 for by in slower)}, at most by {100 * max(0.0, most):.2g} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=pathlib.Path, default=SOURCE / "build" / "hidup")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--level", default="default", choices=["fast", "default", "thorough"])
    parser.add_argument("--no-speed", action="store_true")
    options = parser.parse_args()
    if not options.no_speed:
        print_speed(options.binary, options.repetitions)
    print_quality(options.binary, options.only, options.level)


if __name__ == "__main__":
    main()
