#!/usr/bin/env python3
"""A training step of hidup beside one of PyTorch, on one device or on CPU ranks, in turn.

    python3 tests/bench/peer.py                                  # on a GPU, with build-cuda/hidup
    python3 tests/bench/peer.py --device cpu                     # two threads, with build/hidup
    python3 tests/bench/peer.py --device cpu --small --rounds 1  # checks that it works

Shapes come from our decks. PyTorch runs as fast as it can (torch_models.py, torch_step.py): torch.compile,
fused AdamW, in bf16 autocast with f32 masters, on CPUs with jemalloc as its own guide sets it; several
ranks by DistributedDataParallel over gloo. Features that a PyTorch lacks are left out and reported. Both
take random tokens and random weights of small scale. Each round is a process of either; medians over the
steps after the first ones. About five minutes on a GPU, half an hour on two cores.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

try:
    import h5py
    import torch
    import yaml
except ImportError as error:
    print(f"peer.py: skipped: {error}")
    sys.exit(77)

SOURCE = pathlib.Path(__file__).resolve().parents[2]
WARMUP = 5  # steps that do not count
JEMALLOC = ("oversize_threshold:1,background_thread:true,metadata_thp:auto,dirty_decay_ms:-1,"
            "muzzy_decay_ms:-1")
SMALL = {"model.layers": 2, "model.hidden": 64, "model.heads": 2, "model.ffn": 96,
         "model.sequence": 32, "model.vocab": 300, "train.batch": 4}


@dataclasses.dataclass
class Case:
    name: str
    deck: str  # below inputs/models
    settings: dict  # keys of the deck
    precision: str = "bf16"
    ranks: int = 1
    threads: int = 2  # of a rank on CPUs

    def deck_of_both(self):
        """Returns the deck's sections with the settings, for PyTorch."""
        text = (SOURCE / "inputs" / "models" / f"{self.deck}.yaml").read_text(encoding="utf-8")
        deck = yaml.safe_load(text)
        for key, value in self.settings.items():
            *sections, last = key.split(".")
            section = deck
            for part in sections:
                section = section[part]
            section[last] = value
        return deck


def gpt(sequence, precision, ranks=1):
    name = f"gpt2-124m, 4 x {sequence}" + (f", {ranks} ranks" if ranks > 1 else "")
    return Case(name, "gpt2-124m", {"train.batch": 4, "model.sequence": sequence}, precision, ranks,
                2 // ranks)


GPU_CASES = [Case("gpt2-124m", "gpt2-124m", {"train.batch": 16}),
             Case("gpt2-350m", "gpt2-350m", {"train.batch": 8}),
             Case("bert-sgmoe", "bert-sgmoe", {"train.batch": 64})]
CPU_CASES = [gpt(64, "fp32"), gpt(256, "fp32"), gpt(64, "bf16"), gpt(256, "bf16"),
             Case("RMoE, 8 x 128", "paper/bert-sgmoe",
                  {"train.batch": 8, "model.moe.experts": 4}, "fp32"),
             gpt(64, "fp32", ranks=2)]


def free_port():
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run_torch(case, device, steps):
    """Returns the output of torch_step.py."""
    deck = case.deck_of_both()
    what = {"model": deck["model"], "train": deck["train"], "device": device,
            "precision": case.precision, "ranks": case.ranks, "threads": case.threads,
            "steps": steps, "warmup": WARMUP}
    environment = {**os.environ, "OMP_NUM_THREADS": str(case.threads), "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": str(free_port())}
    if device == "cpu":
        environment |= {"LD_PRELOAD": "libjemalloc.so.2", "MALLOC_CONF": JEMALLOC}
    command = [sys.executable, SOURCE / "tests" / "bench" / "torch_step.py", json.dumps(what)]
    ranks = [subprocess.Popen(command, env={**environment, "RANK": str(rank)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
             for rank in range(case.ranks)]
    outputs = [rank.communicate() for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"peer.py: PyTorch's steps of {case.name} failed:\n{outputs[0][1]}")
    return json.loads(outputs[0][0])


def run_hidup(program, case, device, steps, folder):
    """Returns (seconds of a step, loss of the last one)."""
    cluster, out = folder / "cluster.yaml", folder / "run.h5"
    cluster.write_text(f"cluster:\n  device: {{kind: {device}}}\n"
                       "  mesh: [{name: ranks, size: auto}]\n  profile: none\n", encoding="utf-8")
    settings = {**case.settings, "data.kind": "synthetic", "train.steps": steps,
                "train.warmup_steps": 0, "model.precision": case.precision}
    command = [program, "train", SOURCE / "inputs" / "models" / f"{case.deck}.yaml", "--cluster",
               cluster, "--strategy", "dp", "--out", out, "--overwrite"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    script = f'source "$0" && exec mpirun -n {case.ranks} "$@"'
    result = subprocess.run(["bash", "-c", script, str(SOURCE / "jobs" / "environment.sh"),
                             *map(str, command)], capture_output=True, text=True, check=False,
                            env={**os.environ, "OMP_NUM_THREADS": str(case.threads)})
    if result.returncode:
        sys.exit(f"peer.py: hidup's steps of {case.name} failed:\n{result.stderr}")
    with h5py.File(out) as file:
        rows = file["iterations"]
        return statistics.median(rows["wall_s"][WARMUP:]), rows["loss"][-1]


def compare(case, program, device, steps, rounds):
    """Prints the case's row: medians of the rounds, and the ratio's minimum and maximum."""
    theirs, ours = [], []
    for _ in range(rounds):
        theirs.append(run_torch(case, device, steps))
        with tempfile.TemporaryDirectory(prefix="hidup-peer-") as folder:
            ours.append(run_hidup(program, case, device, steps, pathlib.Path(folder)))
    ratios = [their["seconds"] / our[0] for their, our in zip(theirs, ours)]
    deck = case.deck_of_both()
    tokens = deck["train"]["batch"] * deck["model"]["sequence"]
    their_seconds = statistics.median(their["seconds"] for their in theirs)
    our_seconds = statistics.median(our[0] for our in ours)
    print(f"| {case.name} | {case.precision} | {1e3 * their_seconds:.1f} | "
          f"{tokens / their_seconds:.0f} | {theirs[-1]['loss']:.4f} | {1e3 * our_seconds:.1f} | "
          f"{tokens / our_seconds:.0f} | {ours[-1][1]:.4f} | **{statistics.median(ratios):.2f}** "
          f"({min(ratios):.2f} to {max(ratios):.2f}) | {', '.join(theirs[-1]['lacks']) or '-'} |",
          flush=True)


def chosen_cases(args):
    cases = GPU_CASES if args.device == "cuda" else CPU_CASES
    names = [case.name for case in cases]
    if unknown := [word for word in args.models if not any(n.startswith(word) for n in names)]:
        sys.exit(f"peer.py: no such case: {', '.join(unknown)}; known: {'; '.join(names)}")
    cases = [case for case in cases
             if not args.models or any(case.name.startswith(word) for word in args.models)]
    for case in cases:
        if args.batch:
            case.settings["train.batch"] = args.batch
        if args.small:
            case.settings |= SMALL
            if "moe" in case.deck:
                case.settings["model.moe.experts"] = 4
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="CASE", help="how its name begins; default: all")
    parser.add_argument("--hidup", type=pathlib.Path, help="the program")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--batch", type=int, help="sequences per step")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--rounds", type=int, help="default: on CPUs 3, on a GPU 1")
    parser.add_argument("--small", action="store_true", help="tiny models: figures mean nothing")
    args = parser.parse_args()
    if args.steps <= WARMUP:
        parser.error(f"--steps: expected more than {WARMUP}, which warm up")
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("peer.py: PyTorch finds no GPU; --device cpu --small shows that it works")
    program = args.hidup or SOURCE / ("build-cuda" if args.device == "cuda" else "build") / "hidup"
    rounds = args.rounds or (3 if args.device == "cpu" else 1)

    place = torch.cuda.get_device_name() if args.device == "cuda" else "CPU ranks"
    print(f"## hidup beside PyTorch {torch.__version__}\n\n{place}, {args.steps - WARMUP} steps, rounds: "
          f"{rounds}. Loss: of the last step, each with parameters of its own.\n")
    if args.small:
        print("Tiny models: the figures mean nothing.\n")
    print("| case | precision | PyTorch ms | tokens/s | loss | hidup ms | tokens/s | loss | PyTorch / "
          "hidup (rounds) | PyTorch lacks |\n|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for case in chosen_cases(args):
        compare(case, program, args.device, args.steps, rounds)


if __name__ == "__main__":
    main()
