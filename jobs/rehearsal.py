#!/usr/bin/python3
"""Prepares the rehearsal of jobs/rehearse.sh: a small model on a small mesh, with the strategy of the real plan
and its ratio of communication to computation.

    jobs/rehearsal.py HIDUP DECK CLUSTER N STRATEGY OUT [key=value]...

1. The real plan: the search's (or that of STRATEGY) for DECK on all ranks of CLUSTER.
2. The small model has 4 layers and the real one's proportions; products get slower in proportion to the
   width, so that all operations have the same parts of the computation as in the real model.
3. Every operation and parameter of a small layer gets the real plan's choices for the layer at the same
   place: as hints, which the search must keep.
4. The links of every axis are scaled until the messages along it take the same part of the computation's
   time as in the real plan.

Writes OUT.settings (key=value per line), OUT.yaml (the strategy) and OUT.kept (a text about what is kept).
SIZES: key=value of the small model alone. Exits with 2 where the plan cannot be kept, or as hidup does.
"""

import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]
sys.dont_write_bytecode = True
from analysis.decks import quantity  # noqa: E402
from rehearsal_files import RATE, Decks, Plan, refuse, scaled, warn  # noqa: E402

WIDTH, LAYERS, HEADS = 64, 4, 4
ROUNDS, EXACT, CLOSE = 6, 0.005, 0.05
LEAST_FLOPS, LINKS = 1e6, (1e3, 1e15)  # limits of decks
NO_STAGES = ["train.pipeline=auto"]  # for plans that are no pipelines
LAYER = re.compile(r"^layers\.(\d+)\.(.*)")


def kinds(names):
    """Returns {parts of a kind of layer: numbers of its layers}."""
    layers = {}
    for name in names:
        layer = LAYER.match(name)
        if layer:
            layers.setdefault(int(layer[1]), set()).add(layer[2])
    found = {}
    for number, parts in sorted(layers.items()):
        found.setdefault(frozenset(parts), []).append(number)
    return found


def places(small, real):
    """Returns {layer of the small model: layer of the real one that it stands for}."""
    of_real, found = kinds(real), {}
    for parts, numbers in kinds(small).items():
        if parts not in of_real:
            refuse(f"layer {numbers[0]} of the small model is like none of the real one")
        layers = of_real.pop(parts)
        for place, number in enumerate(numbers):
            at = place * (len(layers) - 1) / max(len(numbers) - 1, 1)
            found[number] = layers[round(at)]
    for layers in of_real.values():
        warn(f"{len(layers)} layer(s) like layers.{layers[0]} are not in the small model")
    return found


def counterpart(name, layer_of):
    layer = LAYER.match(name)
    return f"layers.{layer_of[int(layer[1])]}.{layer[2]}" if layer else name


class Rehearsal:
    def __init__(self, program, deck, cluster, ranks, out, settings):
        self.program, self.deck, self.cluster = program, deck, cluster
        self.ranks, self.out, self.settings = ranks, out, settings
        self.decks = Decks(deck, cluster, settings)

    def hidup(self, command, *words, settings=(), cluster=True):
        command = [self.program, command, self.deck, *words]
        command += ["--cluster", self.cluster] if cluster else []
        for setting in settings:
            command += ["--set", setting]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(done.stderr, end="", file=sys.stderr)
            sys.exit(done.returncode)
        return done.stdout

    def plan(self, strategy, path, ranks, settings, hints=()):
        """Returns the plan's file, and explain's output about it."""
        words = ["--strategy-out", path, "--overwrite", *ranks]
        if strategy == "search":
            self.hidup("search", *words, *hints, settings=settings)
        else:
            self.hidup("validate", *words, "--strategy", strategy, settings=settings)
        return Plan(path), json.loads(self.hidup("explain", "--strategy", path, "--json", *ranks,
                                                 settings=settings))

    def real(self, strategy):
        auto = any(axis.get("size", "auto") == "auto" for axis in self.decks.axes.values())
        ranks = ["--ranks", str(self.ranks)] if auto or not self.decks.axes else []
        settings = [*self.settings, "cluster.emulate=off"]
        return self.plan(strategy, f"{self.out}.real.yaml", ranks, settings)

    def small_model(self, real):
        """Returns small sizes for the keys that the deck uses."""
        decks = self.decks
        if re.search(r"^[^\n]*\bgraph: *[^n\s]", decks.text, re.M):
            refuse("the sizes of a graph of one's own are fixed")
        width = decks.number("hidden", 0)
        part = WIDTH / width if width else 1.0
        rows = int(real.head.get("microbatches", 1)) * int(real.head.get("accumulate", 1))
        sizes = {"model.layers": LAYERS, "model.hidden": WIDTH, "model.heads": HEADS,
                 "model.ffn": max(HEADS, round(part * decks.number("ffn", 4 * width))),
                 "train.batch": max(4, rows) * self.ranks, "train.warmup_steps": 0,
                 "train.validate_every": 0, "data.validation": "none",
                 "train.checkpoint.every_steps": 0, "train.checkpoint.every": "none"}
        bucket = re.fullmatch(r"(\d+)([KMG])iB", decks.model("bucket", "4MiB"))
        if bucket and width:  # keeps the number of buckets for a layer's gradients
            size = int(bucket[1]) << {"K": 10, "M": 20, "G": 30}[bucket[2]]
            sizes["train.bucket"] = f"{max(1, round(part * part * size / 1024))}KiB"
        kind = decks.model("kind")
        if kind != "images":
            sizes["model.sequence"] = min(64, max(8, round(part * decks.number("sequence", width))))
        if kind == "synthetic":  # keeps the head's part of all products
            layers = LAYERS / decks.number("layers", LAYERS)
            sizes["model.vocab"] = max(64, round(part * layers * decks.number("vocab", 64 * width)))
        if decks.model("family") == "llama":
            heads = decks.number("heads", HEADS)
            sizes["model.kv_heads"] = max(1, HEADS * decks.number("kv_heads", heads) // heads)
        if decks.number("experts", 0) > 0:
            sizes["model.moe.experts"] = 2 * self.ranks
        self.products = part if width else 1.0
        return sizes

    def rates(self, slower):
        """Returns the rates of all devices over a number; those of products also scaled with the width."""
        def rate(key, value):
            return value if value == "auto" else scaled(
                value, (1.0 if key == "memory_bandwidth" else self.products) / slower)

        settings = [f"cluster.device.{key}={rate(key, value)}"
                    for key, value in self.decks.rates.items()]
        if self.decks.devices:
            settings.append("cluster.devices=" + re.sub(
                RATE, lambda one: f"{one[1]}: {rate(*one.groups())}", self.decks.devices))
        if share := self.decks.share():  # small products stand for large ones
            settings.append(f"cluster.device.efficiency=[{{share: {share}}}]")
        return settings

    def slowest(self):
        """Returns the largest divisor of the rates."""
        rates = [rate for key, rate in self.decks.rates.items() if key.startswith("flops")]
        rates += re.findall(r"\bflops: *([^\s,}]+)", self.decks.devices or "")
        return min((self.products * quantity(rate) / LEAST_FLOPS for rate in rates
                    if quantity(rate)), default=1.0)

    def small_mesh(self, real):
        """Returns the mesh's sizes: on every axis as many ranks as fit, from the innermost on, and two where
        the real one has more. A host on an axis keeps its link, with fewer ranks, and has another host."""
        names = list(self.decks.axes)
        sizes = fitting([real.mesh.get(name, 1) for name in names], self.ranks)
        if sizes is None:
            most = " x ".join(f"{name} {size}" for name, size in real.mesh.items())
            refuse(f"{self.ranks} rank(s) cannot keep a plan for {most}: an axis of several ranks "
                   "needs two of them at least, and none gets more than it has")
        settings = {}
        for (name, axis), size in zip(self.decks.axes.items(), sizes):
            key = f"cluster.mesh.{name}"
            settings[f"{key}.size"] = size
            if "bandwidth_trace" in axis:
                refuse(f"the link of axis {name} varies in time (bandwidth_trace), which a rehearsal "
                       "cannot scale")
            if int(axis.get("shared", 1)) > 1:  # each keeps its part
                axis["bandwidth"] = scaled(axis["bandwidth"], 1 / int(axis["shared"]))
                settings[f"{key}.shared"] = 1
            hosts = int(axis.get("per_host", 1))
            if hosts > 1:
                hosts = max(part for part in range(1, min(hosts, max(size // 2, 1)) + 1)
                            if size % part == 0)
                settings[f"{key}.per_host"] = hosts
                if hosts == 1:
                    axis["bandwidth"] = axis.pop("host_bandwidth")
                    settings[f"{key}.host_bandwidth"] = "auto"
        return settings

    def links(self, links):
        settings = []
        for name, axis in self.decks.axes.items():
            key, link = f"cluster.mesh.{name}", links[name]
            for one in ("bandwidth", "host_bandwidth"):
                if one in axis and axis[one] != "auto":
                    rate = quantity(axis[one])
                    limited = min(max(rate / link.slower, LINKS[0]), LINKS[1])
                    settings.append(f"{key}.{one}={scaled(axis[one], limited / rate)}")
            if axis.get("latency", "auto") != "auto":
                settings.append(f"{key}.latency={scaled(axis['latency'], link.slower * link.smaller)}")
        return settings

    def hints(self, real, settings, names):
        """Writes the real plan's choices for the small model to a file."""
        path = f"{self.out}.hints.yaml"
        self.hidup("validate", "--strategy", "dp", "--strategy-out", path, "--overwrite", "--ranks",
                   str(self.ranks), settings=[*settings, *NO_STAGES])
        mesh = Plan(path).mesh  # in the present order of the links
        order = [list(real.mesh).index(name) if name in real.mesh else None for name in mesh]
        layer_of = places(names["op"], real.operations)
        shared = any("%" in word for entries in (real.operations, real.parameters)
                     for entry in entries.values() for value in entry.values() for word in value)
        if shared and mesh != real.mesh:
            refuse("the plan has shares for its own ranks, and the rehearsal has fewer of them")
        lines = ["format_version: 2", *(f"{key}: {value}" for key, value in real.head.items())]
        lines += [real.shares.rstrip()] if shared else []
        for key, entries in (("op", real.operations), ("name", real.parameters)):
            lines.append({"op": "operations:", "name": "parameters:"}[key])
            for name in names[key]:
                entry = entries.get(counterpart(name, layer_of), {})
                values = ((k, v if isinstance(v, str) else
                           f"[{', '.join('~' if at is None else v[at] for at in order)}]")
                          for k, v in entry.items())
                texts = [f"{k}: {v}" for k, v in values if "~" not in v or k == "rule"]
                lines += [f"  - {{{', '.join([f'{key}: {name}', *texts])}}}"] if texts else []
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def small(self, strategy, real, explained):
        """Returns the settings of the rehearsal, its plan, and explain's output about it."""
        sizes = self.small_model(real) | self.small_mesh(real)
        own = [*self.settings, *os.environ.get("SIZES", "").split(), "cluster.profile=none"]
        base = [*(f"{key}={value}" for key, value in sizes.items()), *own]
        model = [setting for setting in base if not setting.startswith("cluster.")]
        graph = json.loads(self.hidup("graph", "--format", "json", settings=model, cluster=False))
        names = {"op": [one["name"] for one in graph["operations"]],
                 "name": [one["name"] for one in graph["tensors"] if one["role"] == "parameter"]}
        ranks, path = ["--ranks", str(self.ranks)], f"{self.out}.yaml"
        _, told = self.plan("dp", path, ranks, [*base, *self.rates(1.0), *NO_STAGES])
        # Emulated times are whole nanoseconds, so a step should take about as long as the real one.
        base += self.rates(min(explained["predicted_compute_s"] / told["predicted_compute_s"],
                               self.slowest()))
        named = strategy != "search" and not os.path.isfile(strategy)
        if real.has_schedule and not named:
            refuse("the plan is a pipeline; a rehearsal has those that STRATEGY=pipeline and "
                   "train.pipeline name")
        if named:
            base.append(f"train.microbatches={real.head['microbatches']}")
            base.append(f"train.accumulate={real.head.get('accumulate', 1)}")
        wanted = messages(explained, real.mesh)
        links = {name: Link() for name in self.decks.axes}
        for turn in range(ROUNDS):
            settings = [*base, *self.links(links)]
            emulated = [*settings, "cluster.emulate=on"]
            hints = [] if named else ["--hints", self.hints(real, emulated, names)]
            plan, told = self.plan(strategy if named else "search", path, ranks, emulated, hints)
            found = messages(told, real.mesh)
            if adapt(wanted, found, links, turn == 0):
                break
        return settings, plan, told


def fitting(sizes, ranks):
    """Returns numbers of ranks on the axes, the largest ones innermost, or None."""
    if not sizes:
        return [] if ranks == 1 else None
    *outer, inner = sizes
    most = min(inner, ranks) if outer or inner == 1 else ranks
    for size in range(most, min(inner, 2) - 1, -1):
        rest = fitting(outer, ranks // size) if ranks % size == 0 else None
        if rest is not None:
            return [*rest, size]
    return None


def messages(explained, mesh):
    """Returns {axis: (time over that of computation, mean bytes)} of the messages whose slowest axis it is;
    mesh: slowest axis first."""
    found = {name: [] for name in mesh}
    for one in explained["timeline"]:
        along = [name for name in mesh if (one["bytes_along"] or {}).get(name, 0) > 0]
        if one["stream"] != "compute" and along:
            found[along[0]].append((one["end_s"] - one["start_s"], one["bytes_along"][along[0]]))
    return {name: tuple(sum(column) / of for column, of in
                        zip(zip(*all_of_them), (explained["predicted_compute_s"], len(all_of_them))))
            for name, all_of_them in found.items() if all_of_them}


class Link:
    """Differences of an axis's link from the real one."""

    def __init__(self):
        self.slower, self.smaller = 1.0, 1.0  # the whole link; its latency, as messages are smaller
        self.before = None  # (slower, time of messages) of the turn before

    def aim(self, time, wanted):
        """Sets the next aim after messages took `time`: a part independent of the link, and the rest."""
        now, per_slower = (self.slower, time), time / self.slower
        if self.before and self.before[0] != self.slower:
            per_slower = (time - self.before[1]) / (self.slower - self.before[0])
        fixed = time - per_slower * self.slower
        self.before = now
        aim = (wanted - fixed) / per_slower if per_slower > 0 else 0.0
        self.slower = min(max(aim, 0.1 * self.slower), 1e4 * self.slower)


def adapt(wanted, found, links, first):
    """Changes the links; returns True where nothing is left to change."""
    if set(wanted) != set(found):
        only = ", ".join(sorted(set(wanted) ^ set(found)))
        refuse(f"axis {only} has messages in one of the two plans, the real one and that of the small "
               "model, and none in the other")
    done = not first and all(near(found[name][0], time, EXACT) for name, (time, _) in wanted.items())
    for name, (time, size) in wanted.items():
        if first:  # first latencies, or they would hide that small messages are short
            links[name].smaller = found[name][1] / size
        elif not done:
            links[name].aim(found[name][0], time)
    return done


def near(found, wanted, part):
    """Both are over the time of computation, of which a thousandth makes no difference."""
    return abs(found - wanted) <= max(part * wanted, 0.001)


def describe(plan, told):
    mesh = " x ".join(f"{name} {size}" for name, size in plan.mesh.items())
    comm, compute = told["predicted_comm_s"], told["predicted_compute_s"]
    hidden = (comm - told["predicted_exposed_comm_s"]) / comm if comm > 0 else 0.0
    return (f"{told['strategy']} on {mesh or 'a rank'}, {told['microbatches']} microbatch(es), "
            f"{told['predicted_iteration_s']:.4g} s a step: communication / computation "
            f"{comm / compute:.4f}, {hidden:.0%} of communication hidden")


def main():
    program, deck, cluster, ranks, strategy, out, *settings = sys.argv[1:]
    job = Rehearsal(program, deck, cluster, int(ranks), out, settings)
    real, explained = job.real(strategy)
    settings, plan, told = job.small(strategy, real, explained)
    wanted, found = messages(explained, real.mesh), messages(told, real.mesh)
    along = ", ".join(f"{name} {found[name][0]:.4f} (real {time:.4f})"
                      for name, (time, _) in wanted.items())
    for name, (time, _) in wanted.items():
        if not near(found[name][0], time, CLOSE):
            warn(f"not kept: communication along {name} takes {found[name][0]:.4f} of the time of "
                 f"computation, and {time:.4f} in the real plan")
    with open(f"{out}.settings", "w", encoding="utf-8") as file:
        file.write("".join(f"{setting}\n" for setting in settings))
    with open(f"{out}.kept", "w", encoding="utf-8") as file:
        file.write(f"real plan       {describe(real, explained)}\n"
                   f"rehearsed       {describe(plan, told)}\n"
                   f"kept            {len(plan.operations)} operations and {len(plan.parameters)} "
                   "parameters as in the real plan"
                   f"{'; communication / computation along ' + along if along else ''}\n")


if __name__ == "__main__":
    main()
