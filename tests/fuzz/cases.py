"""The kinds of cases: each writes files, and runs hidup on them once or a few times."""

import os
import re

from keys import random_settings, value_for
from mutate import mutate
from scenes import STRATEGIES, base_arguments, graph_deck

ODD_NAMES = ("missing.yaml", "", ".", "..", "/", "/dev/null", "/dev/zero", "pipe.yaml",
             "folder.yaml", "loop.yaml", "empty.yaml", "a\x1b[31mb.yaml", "x" * 300,
             "missing/missing.yaml", "model.yaml/x", "--", "-", "\xff.yaml", "/proc/self/mem")


def options_of(rng, scene, command):
    """Returns arguments for a command, and the files that they read except the decks."""
    arguments, reads = [], []
    strategy = rng.choice((*STRATEGIES, "strategy.yaml", "strategy.yaml", "strategy.yaml"))
    if command in ("validate", "train") or (command == "explain" and rng.random() < 0.7):
        arguments += ["--strategy", strategy]
        reads += [strategy] if strategy.endswith(".yaml") else []
    if command in ("search", "explain") and rng.random() < 0.4:
        arguments += ["--hints", "hints.yaml"]
        reads.append("hints.yaml")
    if command == "search" and rng.random() < 0.4:
        arguments.append("--baselines")
    if command == "explain" and rng.random() < 0.2:
        arguments.append("--what-if")
    if command in ("search", "explain") and rng.random() < 0.5:
        arguments.append("--json")
    if command in ("search", "validate") and rng.random() < 0.5:
        arguments += ["--strategy-out", "new.yaml"]
    if command == "graph" and rng.random() < 0.6:
        arguments += ["--format", rng.choice(("text", "json", "dot"))]
    return arguments, reads


def outputs_of(arguments):
    return ["new.yaml"] if "--strategy-out" in arguments else []


def run(case, command, arguments, **options):
    """Runs hidup without ranks."""
    return case.run(command, *arguments, outputs=outputs_of(arguments),
                    json_out="--json" in arguments or "json" in arguments, **options)


def check_written(case, decks):
    """Checks that a run's output files can be read."""
    if (case.folder / "new.yaml").exists() and case.rng.random() < 0.3:
        ran = case.run("validate", *decks, "--strategy", "new.yaml")
        if ran.code not in (0, 4):
            case.complain("a strategy that was written is refused", ran)


def files_of(case, scene):
    rng = case.rng
    files = dict(graph_deck(scene) if rng.random() < 0.3 else scene.files)
    files["strategy.yaml"] = rng.choice(scene.strategies)
    files["hints.yaml"] = rng.choice(scene.hints)
    return files


def deck_arguments(rng, scene, command):
    if command == "graph" or (command == "validate" and rng.random() < 0.1):
        return ["model.yaml"]
    arguments = base_arguments(scene)
    if rng.random() < 0.05:
        arguments[-1] = rng.choice(("0", "1", "3", "7", "64", "-1", "2147483648", "x", "1e3", ""))
    return arguments


def mutated_files(case, scenes, _):
    """Runs on files with random changes."""
    rng = case.rng
    scene = rng.choice(scenes)
    files = files_of(case, scene)
    command = rng.choices(("validate", "search", "explain", "graph"), (4, 3, 3, 1))[0]
    decks = deck_arguments(rng, scene, command)
    arguments, reads = options_of(rng, scene, command)
    reads += ["model.yaml", *(["cluster.yaml"] if "--cluster" in decks else [])]
    reads += re.findall(r"[\w-]*graph\.txt", files["model.yaml"])[:1]
    reads += ["profile.yaml"] * ("profile.yaml" in files["cluster.yaml"])
    for name in rng.sample(reads, rng.choices((1, 2), (4, 1))[0] if len(reads) > 1 else 1):
        others = [files[other] for other in reads if other != name]
        files[name] = mutate(rng, files[name], [*others, rng.choice(scene.strategies)])
    if rng.random() < 0.02:
        files["text.txt"] = mutate(rng, files["text.txt"], [files["model.yaml"]])
    case.write(files)
    run(case, command, [*decks, *arguments])
    check_written(case, decks)


def random_keys(case, scenes, keys):
    """Sets values at and beyond the ends of the keys' ranges, by --set or in the decks."""
    rng = case.rng
    scene = rng.choice(scenes)
    case.write(files_of(case, scene))
    command = rng.choices(("validate", "search", "explain", "graph"), (4, 3, 2, 1))[0]
    decks = deck_arguments(rng, scene, command)
    settings = random_settings(rng, keys)
    arguments, _ = options_of(rng, scene, command)
    run(case, command, [*decks, *settings, *arguments])
    check_written(case, [*decks, *settings])


def whole_decks(case, _, keys):
    """Runs on decks with every key at random."""
    rng = case.rng
    sections = {"model": {"layers": "2", "hidden": "12", "heads": "3", "sequence": "7",
                          "vocab": "30"},
                "data": {"kind": "synthetic"}, "train": {"batch": "6", "steps": "2"}, "search": {},
                "cluster": {}}
    for key in keys:
        section, *path = key.name.split(".")
        if "[]" not in key.name and rng.random() < 0.12:
            place = sections[section]
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = value_for(rng, key)
    texts = {name: f"{name}:{block(values)}\n" for name, values in sections.items()}
    case.write({"model.yaml": texts["model"] + texts["data"] + texts["train"] + texts["search"],
                "cluster.yaml": texts["cluster"], "text.txt": "some text for this"})
    command = rng.choices(("validate", "search", "explain"), (4, 3, 1))[0]
    decks = ["model.yaml", "--cluster", "cluster.yaml", "--set", "cluster.device.flops=1TFLOPS",
             *rng.choice((["--ranks", "2"], ["--ranks", "1"], []))]
    run(case, command, decks)


def block(values, depth=1):
    text = ""
    for key, value in values.items():
        text += "\n" + "  " * depth + key + ":"
        text += block(value, depth + 1) if isinstance(value, dict) else f" {value}"
    return text or " {}"


def legal_decks(rng):
    """Returns small decks of any shape that are mostly right."""
    heads = rng.choice((1, 2, 3, 4))
    layers = rng.choice((1, 1, 2, 3))
    batch = rng.randint(1, 9)
    experts = rng.choice((0, 0, 2, 3, 5))
    model = {"family": rng.choice(("bert", "gpt")), "layers": layers, "heads": heads,
             "hidden": 2 * heads * rng.randint(1, 5), "ffn": rng.randint(1, 33),
             "sequence": rng.randint(1, 19), "vocab": rng.randint(1, 70),
             "dropout": rng.choice(("0", "0.1")),
             "precision": rng.choice(("fp32", "fp32", "bf16", "fp16")),
             "moe": {"experts": experts, "every": rng.randint(1, layers),
                     "router": rng.choice(("top1", "top2", "hash", "moving")),
                     "capacity_factor": rng.choice(("0.1", "1.25", "7", "1000000", "none"))}}
    train = {"batch": batch, "steps": 2, "bucket": rng.choice(("1KiB", "4MiB")),
             "overlap": rng.choice(("on", "on", "off")),
             "microbatches": rng.choice(("auto", rng.randint(1, batch))),
             "clip_norm": rng.choice(("0", "1"))}
    axes = [f"{{name: x{i}, size: {rng.choice((1, 2, 2, 3, 4, 5))}, bandwidth: 1GB/s, "
            f"latency: {rng.choice(('0us', '20us'))}}}" for i in range(rng.choice((1, 1, 2, 2, 3)))]
    return {"model.yaml": f"model:{block(model)}\ndata: {{kind: synthetic}}\n"
                          f"train:{block(train)}\n",
            "cluster.yaml": "cluster:\n  device: {flops: 1TFLOPS}\n  profile: none\n  mesh: ["
                            + ", ".join(axes) + "]\n"}


def rules_by_operation(graph):
    """Returns {operation: names of its rules} from the output of `hidup graph`."""
    rules, last = {}, None
    for line in graph.splitlines():
        if operation := re.match(r"([\w.]+) = ", line):
            last = rules.setdefault(operation[1], [])
        elif last is not None and (rule := re.match(r"#   (\S+) ", line)):
            last.append(rule[1])
    return rules


# Names of strategies, as written between double quotes.
NAMES = ("a: b", "#", " ", "", "~", "null", "*a", "x # y", "[", "\xc3\xa9", "\xff", "\\e[1m",
         "a\\nb", "'", "\\\"", "node=dp,gpu=ps", "a" * 3000)


def random_strategy(rng, text, rules, extents):
    """Returns the strategy file with other legal rules and storages."""
    share = rng.choice((0.05, 0.3, 1.0))

    def operation(match):
        count = len(match[2].split(","))
        if rng.random() > share:
            return match[0]
        return (f"op: {match[1]}, rule: ["
                + ", ".join(rng.choice(rules[match[1]]) for _ in range(count)) + "]}")

    def storage(match):
        count = len(match[3].split(","))
        layouts = [", ".join(rng.choice(("R", "S(0)", "S(0)", f"S({extents[match[1]] - 1})",
                                         "S(0)@0")) for _ in range(count)) for _ in range(2)]
        if rng.random() > share:
            return match[0]
        return f"name: {match[1]}, storage: [{layouts[0]}], optimizer_state: [{layouts[1]}]"

    text = re.sub(r"op: ([^,]+), rule: \[([^\]]*)\].*\}", operation, text)
    text = re.sub(r"name: ([^,]+), (storage): \[([^\]]*)\], optimizer_state: \[[^\]]*\]", storage,
                  text)
    if rng.random() < 0.2:
        text = text.replace("\nname: ", f'\nname: "{rng.choice(NAMES)}" #', 1)
    if rng.random() < 0.3:
        text = re.sub(r"microbatches: \d+", f"microbatches: {rng.randint(1, 9)}", text)
    if rng.random() < 0.3:
        text = re.sub(r"gradients: \w+", rng.choice(("gradients: deferred",
                                                     "gradients: overlapped")), text)
    return text


def legal_strategies(case, *_):
    """Validates, simulates and searches around any legal strategy for any decks."""
    rng = case.rng
    case.write(legal_decks(rng))
    decks = ["model.yaml", "--cluster", "cluster.yaml"]
    written = case.run("validate", *decks, "--strategy", rng.choice(STRATEGIES), "--strategy-out",
                       "named.yaml", outputs=["named.yaml"])
    graph = case.run("graph", "model.yaml")
    if written.code != 0 or graph.code != 0:
        return
    graph_text = graph.stdout.decode()
    extents = {name: shape.count(",") + 1 for name, shape in
               re.findall(r"^parameter (\S+) : \w+\[(.*?)\]", graph_text, re.M)}
    text = random_strategy(rng, case.read("named.yaml"), rules_by_operation(graph_text), extents)
    case.write({"strategy.yaml": text, "hints.yaml": text})
    run(case, "validate", [*decks, "--strategy", "strategy.yaml", "--strategy-out", "new.yaml"])
    check_written(case, decks)
    if rng.random() < 0.5:
        case.run("explain", *decks, "--strategy", "strategy.yaml", "--json", json_out=True)
    else:
        arguments = ["--hints", "hints.yaml", "--strategy-out", "new.yaml", "--overwrite"]
        run(case, "search", [*decks, *arguments])
        check_written(case, decks)


def odd_files(case, scenes, _):
    """Runs with irregular input files, and with impossible outputs."""
    rng = case.rng
    scene = rng.choice(scenes)
    case.write({**files_of(case, scene), "empty.yaml": ""})
    os.mkfifo(case.folder / "pipe.yaml")
    (case.folder / "folder.yaml").mkdir()
    (case.folder / "loop.yaml").symlink_to("loop.yaml")
    command = rng.choice(("validate", "search", "explain"))
    arguments = [*base_arguments(scene), "--strategy", "strategy.yaml"]
    if command == "search":
        arguments = [*base_arguments(scene), "--hints", "hints.yaml"]
    kind = rng.random()
    if kind < 0.5:
        at = rng.choice((0, 2, 6))
        arguments[at] = rng.choice(ODD_NAMES)
    elif kind < 0.6:
        arguments += ["--set", "cluster.profile=" + rng.choice(ODD_NAMES)]
    elif kind < 0.7:
        arguments += ["--set", "data.path=" + rng.choice(ODD_NAMES)]
    elif kind < 0.8:
        arguments += ["--set", "model.graph=" + rng.choice(ODD_NAMES)]
    elif kind < 0.9 and command != "explain":
        name = rng.choice((*ODD_NAMES, "model.yaml", "cluster.yaml", "strategy.yaml", "text.txt",
                           "hints.yaml", "/dev/full", "./model.yaml"))
        overwrite = rng.choice(([], ["--overwrite"]))
        free = ["empty.yaml", "hints.yaml", "text.txt", "\xff.yaml"]
        free += ["strategy.yaml"] if "strategy.yaml" not in arguments else []
        if overwrite and name in free:
            name = "new.yaml"  # a file that is no input may be replaced
        written = [name] if name in ("missing.yaml", "a\x1b[31mb.yaml", "-", "--", "new.yaml",
                                     "missing/missing.yaml", "\xff.yaml") else []
        case.run(command, *arguments, "--strategy-out", name, *overwrite, outputs=written)
        return
    else:
        case.run(command, *arguments, stdout_path="/dev/full")
        return
    case.run(command, *arguments)


def odd_command_lines(case, scenes, _):
    """Runs with options that are missing, repeated, unknown, or of another command."""
    rng = case.rng
    scene = rng.choice(scenes)
    case.write(files_of(case, scene))
    command = rng.choice(("validate", "search", "explain", "graph", "train", "profile", "doctor"))
    arguments = [command, *deck_arguments(rng, scene, command)]
    arguments += options_of(rng, scene, command)[0]
    words = (*arguments, "--json", "--baselines", "--hints", "--ranks", "--format", "--help", "-h",
             "--version", "--keys", "--set", "--set=", "--set=a.b=c", "--cluster=", "--nothing",
             "-x", "", " ", "--", "-", "=", "3", "--ranks=2", "--out", "a\x1b[1m", "\xff\xfe",
             "--strategy", "--strategy=\x07", "x" * 5000, "search", "--overwrite", "--ranks=1e9")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(arguments) + 1)
        if rng.random() < 0.4:
            del arguments[at:at + 1]
        else:
            arguments[at:at + rng.randrange(2)] = [rng.choice(words)]
    if "train" in arguments or "profile" in arguments or "doctor" in arguments:
        arguments += ["--odd"]  # else a right command line would start a run
    written = [after for option, after in zip(arguments, arguments[1:])
               if option == "--strategy-out"]
    case.run(*arguments, outputs=written)


def small_runs(case, scenes, _):
    """Trains a step or two, or profiles, with changed files; rarely on two ranks."""
    rng = case.rng
    scene = rng.choice([scene for scene in scenes if scene.trains])
    ranks = 2 if rng.random() < 0.15 else 0
    files = files_of(case, scene)
    arguments, reads = options_of(rng, scene, "train")
    reads += ["model.yaml", "cluster.yaml", "text.txt", "tokens.bin"]
    name = rng.choice(reads)
    sizes = {key: re.search(rf"{key}: *(\w+)", files["model.yaml"])
             for key in ("layers", "hidden", "heads", "ffn", "sequence", "batch", "experts")}
    if rng.random() < 0.7:
        files[name] = mutate(rng, files[name], [files["model.yaml"], files["cluster.yaml"]])
    case.write(files)
    # Sizes stay: a large model that fits may train for any time, and so may 4096 threads.
    settings = [f"{section}.{key}={found[1]}" for key, found in sizes.items() if found
                for section in ["train" if key == "batch" else
                                "model.moe" if key == "experts" else "model"]]
    if rng.random() < 0.8:  # else its own one is measured, which takes longer
        settings.append("cluster.profile=none")
    settings += ["train.steps=2", "cluster.mesh=[{name: ranks, size: auto}]",
                 "cluster.device.threads=1"]
    arguments = [word for setting in settings for word in ("--set", setting)] + arguments
    case.run("train", "model.yaml", "--cluster", "cluster.yaml", "--out", "new.h5", *arguments,
             ranks=ranks, outputs=["new.h5"])


SCHEDULES = ("gpipe", "1f1b", "interleaved", "kfkb", "dapple", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min",
             "dualpipe-v")


def schedules(case, *_):
    """Makes a pipeline schedule of any size, and reads a changed file of it."""
    rng = case.rng
    sizes = ["--stages", str(rng.choice((1, 2, 3, 4, 6, 8))), "--microbatches", str(rng.randint(1, 12))]
    options = [word for option, values in (
        ("--times", ("1s,1s,1s", "18.5ms,18.1ms,9.3ms", "0s,0s,0s", "1us,1h,0s", "1s,1s", "1,1,1")),
        ("--move", ("0s", "1ms", "3s", "-1s", "x")), ("--pair", ("1s", "3s")),
        ("--live", ("1", "2", "3", "9", "0", "-1", "2147483648")), ("--k", ("1", "3", "0", "9999999999")),
        ("--devices", ("1", "2", "4", "0", "7")))
        if rng.random() < 0.3 for word in (option, rng.choice(values))]
    if rng.random() < 0.3:
        options.append("--moves-hold")
    made = case.run("schedule", rng.choice(SCHEDULES), *sizes, *options, "--json", "--out", "new.csv",
                    outputs=["new.csv"], json_out=True)
    if made.code == 0:
        text = case.read("new.csv")
        case.write({"changed.csv": mutate(rng, text, [text])})
        case.run("schedule", "changed.csv", *sizes, "--json", json_out=True)


def pipelines(case, *_):
    """Validates and simulates stages in any order, then with a changed key `schedule`, then a mutated one."""
    rng = case.rng
    case.write(legal_decks(rng))
    decks = ["model.yaml", "--cluster", "cluster.yaml"]
    settings = [word for key, values in (("train.pipeline", SCHEDULES), ("train.accumulate", range(1, 4)))
                if rng.random() < 0.7 for word in ("--set", f"{key}={rng.choice(values)}")]
    written = case.run("validate", *decks, *settings, "--strategy", "pipeline", "--strategy-out", "named.yaml",
                       "--schedule-out", "order.csv", outputs=["named.yaml", "order.csv"])
    if written.code != 0:
        return
    text = case.read("named.yaml")
    operations = re.findall(r"\{op: ([\w.-]+),", text)
    cells = [f"[{row}]" for row in case.read("order.csv").splitlines()]
    keys = {"axis": ("0", "nowhere", "[ranks]"), "name": (*SCHEDULES, "custom"), "k": ("1", "2", "0", "999"),
            "live": ("1", "3", "0", "-1"), "cuts": (f"[{rng.choice(operations)}]", "[x]", "x"),
            "order": (f"[{', '.join(cells)}]", "[[0F0]]", "[]", "[[0F0], [0B0, 0B0]]")}
    had = dict(re.findall(r"(axis|name): ([\w-]+)", re.search(r"^schedule: .*$|$", text, re.M)[0]))
    added = {key: rng.choice(values) for key, values in keys.items() if rng.random() < 0.3}
    line = ", ".join(f"{key}: {value}" for key, value in {**had, **added}.items())
    changed = re.sub(r"^schedule: .*$", lambda _: f"schedule: {{{line}}}", text, flags=re.M)
    for name, content in (("changed.yaml", changed), ("mutated.yaml", mutate(rng, text, [text, changed]))):
        case.write({name: content})
        run(case, "validate", [*decks, "--strategy", name, "--strategy-out", "new.yaml", "--overwrite"])
        case.run("explain", *decks, "--strategy", name, "--json", json_out=True)


# The weight of each kind.
KINDS = {mutated_files: 40, random_keys: 22, whole_decks: 8, legal_strategies: 10, odd_files: 6,
         odd_command_lines: 6, small_runs: 3, schedules: 5, pipelines: 6}
