"""Starting points of cases: shipped decks and others, with data, and strategy files, hints and graphs that
hidup makes from them."""

import pathlib
import random
import re
import struct
import typing

from runs import SOURCE

INPUTS = SOURCE / "inputs"

CLUSTERS = {
    "one axis": "cluster:\n  device: {kind: cpu, threads: 1, memory: 2GiB, flops: 50GFLOPS}\n"
                "  mesh:\n    - {name: ranks, size: auto, bandwidth: 4GB/s, latency: 20us}\n"
                "  comm: {heartbeat_timeout: 5s}\n  profile: none\n",
    "two axes": "cluster:\n  device:\n    flops: 15.7TFLOPS\n    memory_bandwidth: 900GB/s\n"
                "    memory: 32GiB\n  mesh:\n    - name: node\n      size: 2\n"
                "      bandwidth: 9.71Gbps\n      latency: 30us\n    - name: gpu\n"
                "      size: auto\n      bandwidth: 150GB/s\n      latency: 10us\n",
    "three axes": "cluster:\n  device: {flops: 1TFLOPS}\n  mesh: [{name: a, size: 2, bandwidth: "
                  "1GB/s}, {name: b, size: 3, bandwidth: 4GB/s}, {name: c, size: 2, bandwidth: "
                  "9GB/s, latency: 1ms}]\n  cost: {model: published}\n",
    "measured": "cluster:\n  device: {kind: cpu, threads: 1}\n  mesh:\n    - name: ranks\n"
                "      size: auto\n  profile: profile.yaml\n",
}

MODELS = {
    "dense": "model:\n  family: bert\n  layers: 2\n  hidden: 24\n  heads: 3\n  ffn: 40\n"
             "  sequence: 17\n  vocab: auto\n  dropout: 0.1\ndata:\n  kind: text\n"
             "  path: text.txt\n  tokenizer: bytes\ntrain:\n  batch: 5\n  steps: 2\n  seed: 1\n"
             "  lr: 3e-3\n  optimizer: adamw\n  weight_decay: 0.01\n  clip_norm: 1.4\n",
    "experts": "model:\n  layers: 2\n  hidden: 24\n  heads: 3\n  ffn: 40\n  sequence: 17\n"
               "  vocab: 50\n  precision: bf16\n  moe: {experts: 4, every: 2, router: hash}\ndata: "
               "{kind: synthetic}\ntrain:\n  batch: 6\n  steps: 2\n  microbatches: 2\n"
               "  bucket: 1KiB\n",
    "gpt": "model:\n  family: gpt\n  layers: 1\n  hidden: 16\n  heads: 2\n  sequence: 9\n"
           "  dropout: 0\n  moe:\n    experts: 3\n    every: 1\n    router: top1\n"
           "    capacity_factor: 0.7\ndata:\n  kind: tokens\n  path:\n    - tokens.bin\ntrain:\n"
           "  batch: 4\n  steps: 2\n  schedule: cosine\n  warmup_steps: 1\n  min_lr_ratio: 0.1\n",
    "words": "model: {layers: 1, hidden: 8, heads: 1, sequence: 5, precision: fp16}\n"
             "data: {path: [text.txt, text.txt], tokenizer: words}\n"
             "train: {batch: 3, steps: 1, overlap: off}\n",
}

# (model, cluster, ranks of an axis of size auto); repeated ones get more cases.
SCENES = [("dense", "one axis", 4), ("dense", "two axes", 6), ("experts", "one axis", 3),
          ("experts", "three axes", 12), ("gpt", "two axes", 4), ("gpt", "one axis", 2),
          ("words", "one axis", 2), ("experts", "measured", 2), ("dense", "measured", 2),
          ("tiny.yaml", "laptop.yaml", 4), ("own-graph.yaml", "laptop.yaml", 3),
          ("own-graph.yaml", "two axes", 4), ("gpt2-124m.yaml", "v100-1x8.yaml", 8),
          ("bert-switch.yaml", "v100-2x4-30gbps-flat.yaml", 8)]

STRATEGIES = ("dp", "zero1", "fsdp", "fsdp-kept", "ep-deepspeed", "ep-fastmoe", "megatron",
              "megatron-sp", "ps",
              "min-comm")


class Scene(typing.NamedTuple):
    files: dict  # name -> text
    ranks: str
    strategies: list  # texts of strategy files
    hints: list  # texts
    trains: bool  # small enough to train


def text_data():
    words = random.Random(7).choices(["the", "rank", "waits", "for", "its", "sum;", "\n"], k=300)
    return " ".join(words)


def token_data():
    header = struct.pack("<256i", 20240520, 1, 200, *[0] * 253)
    tokens = struct.pack("<200H", *random.Random(8).choices(range(60), k=200))
    return (header + tokens).decode("latin-1")


def model_text(name):
    if name in MODELS:
        return MODELS[name]
    text = (INPUTS / "models" / name).read_text(encoding="latin-1")
    return re.sub(r"^  path:.*?^(?=(?:  )?\S)", "  path: text.txt\n", text, flags=re.M | re.S)


def cluster_text(name):
    return CLUSTERS.get(name) or (INPUTS / "clusters" / name).read_text(encoding="latin-1")


def hints_of(rng, strategy):
    """Returns hints with parts of a strategy file, and patterns."""
    head, _, rest = strategy.partition("operations:\n")
    operations, _, parameters = rest.partition("parameters:\n")
    pick = [line for line in operations.splitlines() if rng.random() < 0.3]
    pick = [re.sub(r", inputs.*\}", "}", line) if rng.random() < 0.7 else line for line in pick]
    pick = [re.sub(r"layers\.\d+", "layers.*", line) if rng.random() < 0.4 else line
            for line in pick]
    stored = [re.sub(r", optimizer_state.*\}", "}", line) if rng.random() < 0.5 else line
              for line in parameters.splitlines() if rng.random() < 0.3]
    text = head if rng.random() < 0.3 else rng.choice(("", "microbatches: 2\n",
                                                       "gradients: deferred\n"))
    text += "operations:\n" + "\n".join(pick) + "\n" if pick else ""
    return text + ("parameters:\n" + "\n".join(stored) + "\n" if stored else "")


def base_arguments(scene):
    return ["model.yaml", "--cluster", "cluster.yaml", "--ranks", scene.ranks]


def make_scene(model, cluster, ranks, case):
    """Returns a scene; case: runs hidup to make the files."""
    rng = case.rng
    scene = Scene({"model.yaml": model_text(model), "cluster.yaml": cluster_text(cluster),
                   "text.txt": text_data(), "tokens.bin": token_data(),
                   "profile.yaml": (pathlib.Path(__file__).parent / "profile.yaml").read_text()},
                  str(ranks), [], [], model in MODELS)
    if model.startswith("own-graph"):
        scene.files["own-graph.txt"] = (INPUTS / "models" / "own-graph.txt").read_text()
    case.write(scene.files)
    for name in STRATEGIES:
        ran = case.run("validate", *base_arguments(scene), "--strategy", name, "--strategy-out",
                       f"{name}.yaml", outputs=[f"{name}.yaml"])
        if ran.code != 0:
            raise RuntimeError(f"{model} on {cluster}: {ran.stderr.decode()}")
        scene.strategies.append(case.read(f"{name}.yaml"))
        scene.hints.append(hints_of(rng, scene.strategies[-1]))
    if "own-graph.txt" not in scene.files:
        scene.files["graph.txt"] = case.run("graph", "model.yaml").stdout.decode()
    return scene


def graph_deck(scene):
    """Returns the scene's files with its model as a graph file."""
    if "graph.txt" not in scene.files:
        return scene.files
    deck = scene.files["model.yaml"]
    sequence = re.search(r"sequence: *(\d+)", deck)[1]
    rest = re.sub(r"^model:.*?^(?=\S)", "", deck, flags=re.M | re.S)
    return {**scene.files, "model.yaml": f"model: {{graph: graph.txt, sequence: {sequence}}}\n"
                                         + rest}
