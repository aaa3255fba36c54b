"""Machines, models and strategies of the measured steps: one rank, two ranks, and two hosts of the test bed
at some bandwidths."""

import contextlib
import pathlib
import re
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TESTBED = SOURCE / "jobs" / "testbed"
STRATEGIES = ["dp", "zero1", "fsdp", "fsdp-kept", "ep-deepspeed", "ep-fastmoe", "megatron",
              "megatron-sp", "ps",
              "min-comm"]
DECK = SOURCE / "inputs" / "models" / "tiny.yaml"
SIZES = {"model.hidden": 192, "model.ffn": 768, "model.layers": 2, "model.sequence": 96,
         "train.batch": 16, "train.warmup_steps": 0, "train.steps": 12,
         "data.path": f"{SOURCE}/src/*/*.cpp"}
WARMUP = 4  # steps that do not count


# The paper's models at small sizes; images have a sequence and no vocabulary of their own.
PAPER = {"model.layers": 2, "model.hidden": 192, "model.heads": 4, "model.ffn": 768}
PAPER_BERT = {**PAPER, "model.sequence": 96, "model.vocab": 1000}
KINDS = {"bert-sgmoe": PAPER_BERT, "bert-switch": PAPER_BERT, "vit-sgmoe": PAPER,
         "vit-switch": PAPER}


def paper_deck(kind):
    return SOURCE / "inputs" / "models" / "paper" / f"{kind}.yaml"


def settings(values):
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def decks(folder):
    """Returns {label: deck} of the MoE model and the same without experts. The experts' load is even: a
    router that learns without a balance loss prefers two of the four within five steps, and the experts then
    compute a third less."""
    text = DECK.read_text(encoding="utf-8")
    dense, even = pathlib.Path(folder, "dense.yaml"), pathlib.Path(folder, "even.yaml")
    dense.write_text(re.sub(r"\n  moe:.*\n(    .*\n)+", "\n", text), encoding="utf-8")
    even.write_text(re.sub(r"router: top2 .*", "router: hash\n    top_k: 2", text),
                    encoding="utf-8")
    return {"dense": dense, "MoE": even}


def hidup(place, command, deck, *arguments, ranks=2):
    """Runs a command; `ranks`: on hosts."""
    launcher = {"one": ["mpirun", "-n", "1"], "two": ["mpirun", "-n", "2"]}.get(
        place, [TESTBED / "run.sh", "-n", ranks])
    script = f'source {SOURCE}/jobs/environment.sh && exec "$@"'
    words = ["bash", "-c", script, "bash", *launcher, SOURCE / "build" / "hidup", command, deck,
             "--cluster", SOURCE / "inputs" / "clusters" / "laptop.yaml", "--overwrite", *arguments]
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(result.stderr)


def add_arguments(parser):
    parser.add_argument("--places", default="one,two,200mbit,1gbit,5gbit",
                        type=lambda text: text.split(","))


@contextlib.contextmanager
def prepared(places):
    """Yields the places one by one, each ready for hidup(); removes the test bed's hosts afterwards."""
    hosts = [place for place in places if place.endswith("bit")]

    def each():
        for place in places:
            if hosts and place == hosts[0]:
                subprocess.run([TESTBED / "up.sh"], check=True, stdout=subprocess.DEVNULL)
            if place in hosts:
                subprocess.run([TESTBED / "rate.sh", place], check=True,
                               stdout=subprocess.DEVNULL)
            yield place

    try:
        yield each()
    finally:
        if hosts:
            subprocess.run([TESTBED / "down.sh"], check=True)
