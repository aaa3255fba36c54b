"""Complete timing files for tests."""

import numpy

from sample_timeline import SECOND, STAGE_TIMES, STAGES, add_distinct, write

RESOLVED = """train:
  steps: 12
  lr: 0.5
cluster:
  device:
    flops: 0.1TFLOPS
    memory_bandwidth: 10GB/s
  mesh:
    - name: "ranks"
      size: auto
  profile: auto
"""


def write_run(path, steps=10, name="tiny", layers=2, stages=False):
    """Writes a complete timing file: write()'s timeline of steps 1 and 2, and steps of 40 ms except the
    first. Rank 1 is busy for 30 + 6 ms of them, and hides 4 ms of the communication. `stages`: the ranks
    are a pipeline's, and idle for 12 and 4 ms, except in the first step."""
    timeline = {"program": STAGES, "times": STAGE_TIMES} if stages else {}
    with write(path, **timeline) as file:
        if stages:
            file["ranks/idle_s"] = numpy.where(numbers_of(steps)[:, None] == 1, 0.5, (0.012, 0.004))
            add_distinct(file)
        numbers = numbers_of(steps)
        file.attrs["model"] = name
        file["iterations/step"] = numbers
        file["iterations/loss"] = 2 + 2.0 / numbers
        file["iterations/wall_s"] = numpy.where(numbers == 1, 1.0, 0.04)
        file["iterations/tokens"] = numpy.full(steps, 1000)
        file["iterations/lr"] = 0.5 / numbers
        file["iterations/grad_norm"] = 1.0 / numbers
        for column, values in (("compute_s", (0.02, 0.03)), ("comm_s", (0.01, 0.01)),
                               ("exposed_comm_s", (0.005, 0.006))):
            file[f"ranks/{column}"] = numpy.tile(values, (steps, 1))
        file["ranks/peak_bytes"] = [1 << 20, 3 << 20]
        file["validation/step"], file["validation/loss"] = [steps], [2.5]
        # Expert 0 of 4 gets twice its share, and a quarter of its tokens are dropped.
        file["experts/tokens"] = numpy.tile([200, 100, 50, 50], (steps, layers, 1))
        file["experts/dropped"] = numpy.tile([50, 0, 0, 0], (steps, layers, 1))
        file["input/resolved"] = RESOLVED
        file["input/model_deck"] = "model: {}\n"
        predicted = {"iteration_s": 0.05, "compute_s": 0.03, "comm_s": 0.02, "exposed_comm_s": 0.01,
                     "peak_bytes": 3 << 20}
        file["strategy"].attrs["floor_s"] = 0.035
        file["strategy"].attrs.update({f"predicted_{key}": v for key, v in predicted.items()})
        instructions = len(file["program/name"])
        file["program/predicted_start_s"] = SECOND * numpy.arange(instructions)
        file["program/predicted_s"] = numpy.full(instructions, SECOND)


def numbers_of(steps):
    return numpy.arange(1, steps + 1)
