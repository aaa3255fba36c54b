#!/usr/bin/env python3
"""Collectives over links of unequal speed, on the test bed: a hierarchical all-reduce against one by
axis, all-to-alls along two axes at once against those by axis, and all-to-alls of hosts that share a
link against their prediction. Needs root and jobs/install.sh --testbed; 20 minutes on two cores.
Prints ratios; asserts nothing.

    python3 tests/bench/routes.py [--only hierarchical|exchange|hosts] [--slow 200] [--fast 2000]
                                  [--link 500] [--rounds 3] [--mib 16]

hierarchical: four hosts with a rank each, as a mesh of 2 x 2. Hosts 0 and 1 are neighbours, and 2 and
3: a host sends to its neighbour at the fast rate (Mbit/s), to others at the slow one. Data parallel
training, whose gradients are one bucket of 16 MiB, runs under two strategy files that differ only in
`routes`, in turn. A collective's time is the least of all ranks', that of the last one to come, which
does not wait; medians over the steps.

exchange: the experts' all-to-alls on a mesh of 2 x 2, of --mib on all ranks together, under three
strategy files that differ only in `routes`, in turn. By axis they are gathered along gpu, exchanged
along node, and cut. They run on four hosts as above, and on two hosts with two ranks each, which
share a link of twice the slow rate. A step has four of them, forward and backward. One takes from the
last rank's start until the last rank has all; "least" is the least of all ranks' times, summed over
the collectives of a route; medians over the steps. Predictions are by the profile that train
measures before the first round, and by the deck's rates.

hosts: two hosts with two ranks each on one axis (per_host: 2). All-to-alls that `hidup profile` times,
and those of a training step with experts (means of the ranks, medians over the steps), are compared
with predictions from the deck's rates. Its host_bandwidth is not the link's set rate but the rate of
messages: that of an all-gather of two ranks, one per host, which is one message in each direction. A
profile of two ranks, taken just before, has its times; the median over its sizes from 1 MiB on.
"""

import argparse
import contextlib
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

import h5py
import numpy
import yaml

from places import SOURCE, TESTBED, WARMUP

ALL = {"family": "bert", "layers": 2, "vocab": 256, "dropout": 0.0}
DATA = {"kind": "synthetic"}
# The model has 16.1 MiB of parameters.
DENSE = {"model": {**ALL, "hidden": 408, "heads": 4, "ffn": 1632, "sequence": 16}, "data": DATA,
         "train": {"batch": 4, "steps": 16, "bucket": "1GiB", "timeline_every": 1}}
# A rank dispatches 4 KiB for every sequence of the batch.
EXPERTS = {"model": {**ALL, "hidden": 64, "heads": 2, "ffn": 64, "sequence": 64,
                     "moe": {"experts": 4, "router": "top1", "capacity_factor": 1.0}},
           "data": DATA, "train": {"steps": 12, "timeline_every": 1}}
SEQUENCE_BYTES = 4096
# The model does little besides the all-to-alls.
EXCHANGE = {**EXPERTS, "model": {**EXPERTS["model"], "layers": 1,
                                 "moe": {**EXPERTS["model"]["moe"], "every": 1}}}
# With a large memory bandwidth, packing, which is no part of a message, takes no time.
DEVICE = {"kind": "cpu", "threads": 1, "flops": "50GFLOPS", "memory_bandwidth": "1000TB/s"}
BURST = "burst 128kb cburst 128kb quantum 60000"  # as in up.sh; a quantum of some packets
LEAST = 1 << 20  # bytes of the messages that count


def call(*words, timeout=300):
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False,
                            timeout=timeout)
    if result.returncode != 0:
        raise RuntimeError(f"{words}: {result.stdout}{result.stderr}")
    return result.stdout


def hidup(*words, ranks=0):
    launcher = [TESTBED / "run.sh", "-n", ranks] if ranks else []
    return call(*launcher, SOURCE / "build" / "hidup", *words)


@contextlib.contextmanager
def hosts(number, mbit):
    call(TESTBED / "up.sh", "--hosts", number, "--rate", f"{mbit}mbit")
    try:
        yield
    finally:
        call(TESTBED / "down.sh")


def write(file, tree):
    file.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return file


def cluster(file, *axes):
    return write(file, {"cluster": {"device": DEVICE, "mesh": list(axes), "profile": "none"}})


def slow_but_to_neighbours(folder, slow, fast):
    """Sets the links of four hosts: each sends through one of its two classes."""
    for host in range(4):
        batch = folder / "tc"
        batch.write_text(f"""qdisc replace dev eth0 root handle 2: htb default 2
class add dev eth0 parent 2: classid 2:1 htb rate {fast}mbit {BURST}
class add dev eth0 parent 2: classid 2:2 htb rate {slow}mbit {BURST}
filter add dev eth0 parent 2: protocol ip u32 match ip dst 198.18.0.{(host ^ 1) + 1} flowid 2:1
""", encoding="utf-8")
        call("tc", "-n", f"hidup{host}", "-batch", batch)


def times_of(file, wanted):
    """Returns ([instruction, step, rank], predicted [instruction]) in s, where wanted(name) is true."""
    with h5py.File(file) as run:
        names = run["/program/name"].asstr()[:]
        mine = [i for i, name in enumerate(names) if wanted(name)]
        step, rank, instruction, start, end = (
            run[f"/timeline/{column}"][:]
            for column in ("step", "rank", "instruction", "start_s", "end_s"))
        times = numpy.zeros((len(names), step.max() + 1, rank.max() + 1))
        times[instruction, step, rank] = end - start
        return times[mine, WARMUP + 1:], run["/program/predicted_s"][:][mine]


def hierarchical(folder, options):
    model = write(folder / "dense.yaml", DENSE)
    deck = cluster(folder / "mesh.yaml",
                   {"name": "node", "size": 2, "bandwidth": f"{options.slow}Mbps"},
                   {"name": "gpu", "size": 2, "bandwidth": f"{options.fast}Mbps"})
    by_axis, joined = folder / "by-axis.yaml", folder / "hierarchical.yaml"
    hidup("validate", model, "--cluster", deck, "--strategy", "dp", "--strategy-out", joined)
    text = joined.read_text(encoding="utf-8")
    assert "all_reduce node+gpu" in text, text
    by_axis.write_text(text[:text.index("routes:")], encoding="utf-8")
    print(f"## All-reduce of 16 MiB on 2 x 2 hosts, {options.slow} and {options.fast} Mbit/s\n"
          "| round | by axis: node + gpu | hierarchical | ratio | by the deck's rates |\n"
          "|---|---|---|---|---|")
    ratios = []
    with hosts(4, options.fast):
        slow_but_to_neighbours(folder, options.slow, options.fast)
        for number in range(options.rounds):
            found = []
            for strategy in (by_axis, joined):
                out = strategy.with_suffix(".h5")
                hidup("train", model, "--cluster", deck, "--strategy", strategy, "--out", out,
                      "--overwrite", ranks=4)
                times, expected = times_of(out, lambda name: name.startswith("gradients."))
                found += [numpy.median(times.min(axis=2), axis=1), expected.sum()]
            apart, expected, together, least = found
            ratios.append(together.sum() / apart.sum())
            print(f"| {number + 1} | {1e3 * apart[0]:.0f} + {1e3 * apart[1]:.0f} ms | "
                  f"{1e3 * together.sum():.0f} ms | {ratios[-1]:.3f} | {1e3 * expected:.0f} and "
                  f"{1e3 * least:.0f} ms: {least / expected:.3f} |", flush=True)
    print(f"\nhierarchical / by axis: median {statistics.median(ratios):.3f} (aim: 0.6)\n")


def exchange_times(file):
    """Returns (last start to last end, the least of all ranks', predicted) in ms, of the experts'
    all-to-alls."""
    with h5py.File(file) as run:
        names = run["/program/name"].asstr()[:]
        predicted = run["/program/predicted_s"][:]
        step, rank, instruction, start, end = (
            run[f"/timeline/{column}"][:]
            for column in ("step", "rank", "instruction", "start_s", "end_s"))
    shape = (len(names), step.max() + 1, rank.max() + 1)
    starts, ends = numpy.zeros(shape), numpy.zeros(shape)
    starts[instruction, step, rank], ends[instruction, step, rank] = start, end
    routes = {}
    for i, name in enumerate(names):
        tensor, _, kind = name.rpartition(".")
        if ".moe." in name and "counts" not in name and kind in ("all_gather", "all_to_all",
                                                                 "slice"):
            routes.setdefault(tensor, []).append(i)
    assert len(routes) == 4, routes
    steps = slice(WARMUP + 1, None)
    whole, least, expected = [], [], []
    for mine in routes.values():
        whole.append((ends[mine[-1]].max(axis=1) - starts[mine[0]].max(axis=1))[steps])
        least.append((ends[mine] - starts[mine]).min(axis=2).sum(axis=0)[steps])
        expected.append(predicted[mine].sum())
    return [1e3 * numpy.median(each) for each in (whole, least, expected)]


def exchange_strategies(folder, model, deck, batch):
    """Returns strategy files that differ in their routes between the experts' layouts only."""
    files = [folder / f"{name}.yaml" for name in ("by-axis", "hierarchical", "flat")]
    hidup("validate", model, "--cluster", deck, "--strategy", "ep-deepspeed", "--strategy-out",
          files[0], "--set", batch)
    text = files[0].read_text(encoding="utf-8")
    text = text[:text.index("routes:")] + "routes:\n"
    text += "  - {from: [P, P], to: [R, R], bytes: 4, steps: [all_reduce node+gpu]}\n"
    for file, sign in zip(files, ("", "+", "*")):
        joint = [f"  - {{from: [{a}, {a}], to: [{b}, {b}], bytes: 4, "
                 f"steps: [all_to_all node{sign}gpu]}}\n"
                 for a, b in (("S(0)", "S(1)"), ("S(1)", "S(0)")) if sign]
        file.write_text(text + "".join(joint), encoding="utf-8")
    return files


def exchange_turn(strategies, deck, model, batch):
    """Returns [strategy, measure], with the measures of exchange_times()."""
    found = []
    for strategy in strategies:
        out = strategy.with_suffix(".h5")
        hidup("train", model, "--cluster", deck, "--strategy", strategy, "--out", out,
              "--overwrite", "--set", batch, ranks=4)
        found.append(exchange_times(out))
    return numpy.array(found)


def batch_of(options):
    return f"train.batch={options.mib * (1 << 20) // 4 // SEQUENCE_BYTES}"


def exchange_rounds(folder, strategies, deck, model, options):
    """Prints a row for every round, and the medians."""
    print("| round | by axis | hierarchical | flat | ratios | least | by the profile | by the deck's "
          "rates |\n|---|---|---|---|---|---|---|---|")
    in_ms = lambda times: ", ".join(f"{each:.0f}" for each in times) + " ms"
    batch = batch_of(options)
    by_rates = exchange_turn(strategies, deck, model, batch)[:, 2]
    tree = yaml.safe_load(deck.read_text(encoding="utf-8"))
    tree["cluster"]["profile"] = "auto"
    profiled_deck = write(folder / "profiled.yaml", tree)
    exchange_turn(strategies[:1], profiled_deck, model, batch)  # measures the profile
    to_by_axis, to_profile, to_rates = [], [], []
    for turn in range(options.rounds):
        whole, least, by_profile = exchange_turn(strategies, profiled_deck, model, batch).T
        to_by_axis.append(whole / whole[0])
        to_profile.append(whole / by_profile)
        to_rates.append(whole / by_rates)
        print(f"| {turn + 1} | " + " | ".join(f"{each:.0f} ms" for each in whole) +
              " | " + ", ".join(f"{each:.3f}" for each in to_by_axis[-1][1:]) +
              f" | {in_ms(least)} | {in_ms(by_profile)} | {in_ms(by_rates)} |", flush=True)
    medians = [numpy.median(each, axis=0) for each in (to_by_axis, to_profile, to_rates)]
    for strategy, by_axis, by_profile, by_rates in zip(strategies, *medians):
        print(f"\n{strategy.stem}: {by_axis:.3f} x by axis (aim: 0.6), {by_profile:.3f} x the "
              f"profile's prediction (aim: 0.9 to 1.1), {by_rates:.3f} x that of the rates")
    print(flush=True)


def exchange(folder, options):
    model = write(folder / "exchange.yaml", EXCHANGE)
    node, gpu = {"name": "node", "size": 2}, {"name": "gpu", "size": 2}
    four = cluster(folder / "four.yaml", {**node, "bandwidth": f"{options.slow}Mbps"},
                   {**gpu, "bandwidth": f"{options.fast}Mbps"})
    two = cluster(folder / "two.yaml",
                  {**node, "bandwidth": f"{2 * options.slow}Mbps", "shared": 2},
                  {**gpu, "bandwidth": "4GB/s"})
    strategies = exchange_strategies(folder, model, four, batch_of(options))
    for number, deck in ((4, four), (2, two)):
        print(f"## All-to-all of {options.mib} MiB on {number} hosts, 4 ranks, {options.slow} "
              "Mbit/s a rank")
        with hosts(number, options.fast if number == 4 else 2 * options.slow):
            if number == 4:
                slow_but_to_neighbours(folder, options.slow, options.fast)
            exchange_rounds(folder, strategies, deck, model, options)


def profiled(folder, ranks, deck):
    """Returns {collective: {bytes: seconds}} of messages alone."""
    out = folder / "profile.yaml"
    hidup("profile", folder / "dense.yaml", "--cluster", deck, "--out", out, "--overwrite",
          ranks=ranks)
    return {one["op"]: {int(row["bytes"]): float(row["alone_s"]) for row in one["table"]}
            for one in yaml.safe_load(out.read_text(encoding="utf-8"))["collectives"]}


def on_hosts(folder, options):
    write(folder / "dense.yaml", DENSE)
    model, out = write(folder / "experts.yaml", EXPERTS), folder / "run.h5"
    print(f"## All-to-all of 4 ranks on 2 hosts, links of {options.link} Mbit/s\n"
          "| round | link | size | predicted | in the profile | in a step |\n"
          "|---|---|---|---|---|---|")
    errors = []
    with hosts(2, options.link):
        for number in range(options.rounds):
            axis = {"name": "ranks", "size": 2, "bandwidth": f"{options.link}Mbps"}
            link = profiled(folder, 2, cluster(folder / "two.yaml", axis))["all_gather"]
            rate = statistics.median(size / 2 / seconds for size, seconds in link.items()
                                     if size >= LEAST)
            deck = cluster(folder / "four.yaml",
                           {"name": "ranks", "size": 4, "bandwidth": "4GB/s", "per_host": 2,
                            "latency": f"{1e6 * link[min(link)]:.0f}us",
                            "host_bandwidth": f"{rate / 1e6:.3f}MB/s"})
            table = profiled(folder, 4, deck)["all_to_all"]
            for size, in_profile in ((size, table[size]) for size in table if size >= LEAST):
                hidup("train", model, "--cluster", deck, "--strategy", "ep-deepspeed", "--out", out,
                      "--overwrite", "--set", f"train.batch={size // SEQUENCE_BYTES}", ranks=4)
                times, expected = times_of(
                    out, lambda name: "all_to_all" in name and "counts" not in name)
                in_step, expected = numpy.median(times.mean(axis=2)), expected.mean()
                ratios = [in_profile / expected, in_step / expected]
                errors.append([abs(ratio - 1.0) for ratio in ratios])
                print(f"| {number + 1} | {8e-6 * rate:.0f} Mbit/s | {size / 2**20:.0f} MiB | "
                      f"{1e3 * expected:.1f} ms | {1e3 * in_profile:.1f} ms, {ratios[0]:.3f} | "
                      f"{1e3 * in_step:.1f} ms, {ratios[1]:.3f} |", flush=True)
    for where, found in zip(("in the profile", "in a step"), zip(*errors)):
        print(f"\n{where}: median error {statistics.median(found):.1%}, worst {max(found):.1%} "
              f"(aim: 10 %)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["hierarchical", "exchange", "hosts"])
    parser.add_argument("--slow", type=int, default=200, help="Mbit/s")
    parser.add_argument("--fast", type=int, default=2000, help="Mbit/s")
    parser.add_argument("--link", type=int, default=500, help="Mbit/s, of two hosts")
    parser.add_argument("--mib", type=int, default=16, help="of an all-to-all, on all ranks")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # removes the test bed then, too
    with tempfile.TemporaryDirectory() as name:
        for part, run in (("hierarchical", hierarchical), ("exchange", exchange),
                          ("hosts", on_hosts)):
            if options.only in (None, part):
                run(pathlib.Path(name), options)


if __name__ == "__main__":
    main()
