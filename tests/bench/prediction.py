#!/usr/bin/env python3
"""Predicted against measured step times: dense and MoE models under every named strategy, on one
rank, two ranks, and two hosts at three bandwidths. The profiles are taken beforehand, at other
sizes. Prints a table (Markdown) and the median and worst error; asserts nothing. Hosts need root
and jobs/install.sh --testbed. About ten minutes.

    python3 tests/bench/prediction.py [--places one,two,200mbit,1gbit,5gbit]
"""

import argparse
import pathlib
import re
import subprocess
import tempfile

import h5py
import numpy

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TESTBED = SOURCE / "jobs" / "testbed"
STRATEGIES = ["dp", "zero1", "fsdp", "ep-deepspeed", "ep-fastmoe", "megatron", "megatron-sp", "ps",
              "min-comm"]
DECK = SOURCE / "inputs" / "models" / "tiny.yaml"
SIZES = {"model.hidden": 192, "model.ffn": 768, "model.layers": 2, "model.sequence": 96,
         "train.batch": 16, "train.warmup_steps": 0, "train.steps": 12,
         "data.path": f"{SOURCE}/src/*/*.cpp"}
PROFILED = {"model.hidden": 128, "model.ffn": 640, "model.layers": 2, "model.sequence": 128,
            "train.batch": 12, "train.warmup_steps": 0, "data.path": f"{SOURCE}/src/*/*.cpp"}
WARMUP = 4  # steps that do not count


def settings(values):
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def decks(folder):
    """{label: deck} of the MoE model and the same without experts."""
    text = DECK.read_text(encoding="utf-8")
    dense = pathlib.Path(folder, "dense.yaml")
    without = re.sub(r"\n  moe:.*\n(    .*\n)+", "\n", text)
    dense.write_text(without, encoding="utf-8")
    return {"dense": dense, "MoE": DECK}


def hidup(place, command, deck, *arguments):
    launcher = {"one": ["mpirun", "-n", "1"], "two": ["mpirun", "-n", "2"]}.get(
        place, [TESTBED / "run.sh", "-n", "2"])
    script = f'source {SOURCE}/jobs/environment.sh && exec "$@"'
    words = ["bash", "-c", script, "bash", *launcher, SOURCE / "build" / "hidup", command,
             deck, "--cluster", SOURCE / "inputs" / "clusters" / "laptop.yaml", "--overwrite", *arguments]
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(result.stderr)


def measure(place, out, profile, deck, strategy, microbatches):
    """(measured, predicted) seconds of a step, and predicted over measured memory."""
    hidup(place, "train", deck, "--out", out, "--strategy", strategy,
          *settings({**SIZES, "train.microbatches": microbatches,
                     "cluster.profile": profile}))
    with h5py.File(out) as file:
        strategy = file["strategy"].attrs
        return (numpy.median(file["/iterations/wall_s"][WARMUP:]),
                strategy["predicted_iteration_s"],
                strategy["predicted_peak_bytes"] / file["/ranks/peak_bytes"][:].max())


def table_of(place, folder):
    errors, memory = [], []
    profile = f"{folder}/{place}.yaml"
    hidup(place, "profile", DECK, "--out", profile, *settings(PROFILED))
    for label, deck in decks(folder).items():
        names = ["dp"] if place == "one" else STRATEGIES
        for name in names if label == "MoE" else [n for n in names if not n.startswith("ep-")]:
            for microbatches in (1, 2):
                wall, predicted, peak = measure(place, f"{folder}/run.h5", profile, deck, name,
                                                microbatches)
                errors.append(predicted / wall - 1.0)
                memory.append(abs(peak - 1.0))
                print(f"| {place} | {label} | {name} | {microbatches} | {wall * 1e3:.1f} | "
                      f"{predicted * 1e3:.1f} | {100 * errors[-1]:+.1f} % |", flush=True)
    return errors, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--places", default="one,two,200mbit,1gbit,5gbit")
    places = parser.parse_args().places.split(",")
    hosts = [place for place in places if place.endswith("bit")]
    print("| ranks or link | model | strategy | microbatches | measured ms | predicted ms | error |"
          "\n|---|---|---|---|---|---|---|")
    errors, memory = [], []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for place in places:
                if hosts and place == hosts[0]:
                    subprocess.run([TESTBED / "up.sh"], check=True, stdout=subprocess.DEVNULL)
                if place in hosts:
                    subprocess.run([TESTBED / "rate.sh", place], check=True,
                                   stdout=subprocess.DEVNULL)
                for total, some in zip((errors, memory), table_of(place, folder)):
                    total.extend(some)
        finally:
            if hosts:
                subprocess.run([TESTBED / "down.sh"], check=True)
    sizes = numpy.abs(errors)
    print(f"\n{len(sizes)} runs: median error {100 * numpy.median(sizes):.1f} %, worst "
          f"{100 * sizes.max():.1f} %, within 20 %: {100 * (sizes <= 0.2).mean():.0f} %; "
          f"memory within {100 * max(memory):.2f} %")


if __name__ == "__main__":
    main()
