"""The instructions of a training step, from `hidup explain`, and their estimated times."""

import json
import subprocess
import typing

import gpu
from model import Estimate, estimate

# One GPU in bf16 has one microbatch: duplex cuts nothing.
STEPS = {"gpt2-124m": 16, "gpt2-350m": 16, "bert-sgmoe": 64}  # batches
SETTINGS = ("model.precision=bf16", "train.microbatches=1",
            f"cluster.device.flops_16bit={gpu.PRODUCTS / 1e12:g}TFLOPS",
            "cluster.device.efficiency=[]",
            f"cluster.device.memory_bandwidth={gpu.MEMORY / 1e9:g}GB/s")


class Line(typing.NamedTuple):
    """All instructions of a step with one opcode."""
    opcode: str
    count: int
    launches: int
    floor_s: float
    seconds: float
    worst: Estimate  # of the instruction furthest above its floor

    @property
    def above_s(self):
        return self.seconds - self.floor_s


def by_excess(one):
    """Sorts estimates by the excess over the floor, then by time."""
    return one.seconds - one.floor_s, one.seconds


def listing(hidup, source, model):
    """Returns the timeline of a predicted step: opcode, dtype, flops, bytes and sizes of each instruction."""
    arguments = ["explain", f"inputs/models/{model}.yaml", "--cluster", "inputs/clusters/laptop.yaml",
                 "--ranks", "1", "--strategy", "dp", "--json"]
    for setting in (*SETTINGS, f"train.batch={STEPS[model]}"):
        arguments += ["--set", setting]
    done = subprocess.run([str(hidup), *arguments], check=True, capture_output=True, text=True,
                          cwd=source)
    return json.loads(done.stdout)["timeline"]


def lines_of(timeline, kernels_of, counted_of):
    """Returns lines by opcode, the longest first; the functions give an opcode's kernels and counts."""
    found = {}
    for work in timeline:
        opcode = work["opcode"]
        kernels = kernels_of(opcode)
        one = estimate(opcode, work, kernels, counted_of(opcode))
        line = found.get(opcode, Line(opcode, 0, 0, 0.0, 0.0, one))
        launches = max(sum(kernel.is_launched for kernel in kernels), 1)
        found[opcode] = Line(opcode, line.count + 1, line.launches + launches,
                             line.floor_s + one.floor_s, line.seconds + one.seconds,
                             max(line.worst, one, key=by_excess))
    return sorted(found.values(), key=lambda line: -line.seconds)
