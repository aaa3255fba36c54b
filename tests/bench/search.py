#!/usr/bin/env python3
"""How long `hidup search` takes and how much memory, whole process, by the number of layers; and
how far what it finds is above its lower bound. Needs nothing but the program; about a minute.
Prints, asserts nothing.

    python3 tests/bench/search.py [--binary build/hidup] [--repetitions 5]

The least of the repetitions: other work on the machine only adds to it. search_s is the program's
own time up to the strategy; process is all of it, from the shell's point of view, and "its cores"
the time that it computed on them. Devices have memory enough for 1,000 layers.
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


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def search(binary, deck, cluster, repetitions, *args):
    """The JSON result of the fastest of the runs, with process_s."""
    results = []
    for _ in range(repetitions):
        began, used = time.monotonic(), cpu_seconds()
        output = subprocess.run(
            [binary, "search", deck, "--cluster", CLUSTERS / f"{cluster}.yaml", "--json", *args],
            check=True, capture_output=True, text=True).stdout
        results.append({**json.loads(output), "process_s": time.monotonic() - began,
                        "cpu_s": cpu_seconds() - used})
    return min(results, key=lambda result: result["search_s"])


def different_layers(binary, folder, layers):
    """A deck of bert-sgmoe whose layers all have another width of the feed-forward network."""
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


def print_speed(binary, repetitions):
    print("| bert-sgmoe, 64 devices | search_s | process | its cores | peak | gap |\n"
          "|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        cases = [(f"{layers} layers", MODELS / "bert-sgmoe.yaml",
                  ["--set", f"model.layers={layers}", "--set", "cluster.device.memory=1TiB"])
                 for layers in (8, 12, 48, 1000)]
        cases.append(("48 layers that differ",
                      different_layers(binary, pathlib.Path(folder), 48), []))
        for name, deck, args in cases:
            result = search(binary, deck, MANY, repetitions, *args)
            print(f"| {name} | {result['search_s'] * 1e3:.0f} ms "
                  f"| {result['process_s'] * 1e3:.0f} ms | {result['cpu_s'] * 1e3:.0f} ms "
                  f"| {result['peak_rss_bytes'] / 2**20:.0f} MiB | {100 * result['gap']:.1f} % |",
                  flush=True)


def print_quality(binary, repetitions):
    print("\n| model | cluster | predicted | by the objective | lower bound | gap | search_s |\n"
          "|---|---|---|---|---|---|---|")
    for model in ("bert", "bert-sgmoe", "bert-switch"):
        for cluster in ("v100-1x8", "v100-2x4-100gbps-flat", "v100-2x4-30gbps-flat", MANY):
            result = search(binary, MODELS / f"{model}.yaml", cluster, repetitions)
            print(f"| {model} | {cluster} | {result['predicted_iteration_s'] * 1e3:.1f} ms "
                  f"| {result['objective_s'] * 1e3:.1f} ms "
                  f"| {result['lower_bound_s'] * 1e3:.1f} ms | {100 * result['gap']:.1f} % "
                  f"| {result['search_s'] * 1e3:.0f} ms |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=pathlib.Path, default=SOURCE / "build" / "hidup")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    print_speed(options.binary, options.repetitions)
    print_quality(options.binary, options.repetitions)


if __name__ == "__main__":
    main()
