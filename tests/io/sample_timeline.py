"""A timing file with a timeline, and the bars of its picture, for tests of its readers."""

import os
import tempfile
import unittest

import h5py
import numpy

PROGRAM = {  # two microbatches, by instruction
    "name": ["embedding", "layers.0.ffn.up", "layers.0.ffn.up.all_to_all",
             "layers.0.ffn.up, weight gradient", "gradients.0.all_reduce", "parameters.0.update"],
    "kind": ["compute", "compute", "collective", "compute", "collective", "compute"],
    "stream": ["compute", "compute", "comm", "compute", "comm", "compute"],
    "microbatch": [0, 1, 1, 0, -1, -1],
    "phase": ["forward", "forward", "forward", "backward", "backward", "update"],
    "collective": ["", "", "all_to_all", "", "all_reduce", ""],
    "flops": [0, 4_000_000, 0, 8_000_000, 0, 1000],
    "bytes": [100, 200, 3_000_000, 400, 500, 600],
}
# (start, end) in milliseconds, by rank and instruction.
TIMES = [[(10, 11), (11, 13), (12, 15), (14, 18), (19, 21), (21, 22)],
         [(11, 12), (12, 14), (14, 15), (15, 19), (19, 21), (21, 22)]]
SECOND = 1e-3  # of a millisecond
# The busy times of TIMES, by rank.
BUSY = {"compute_s": [0.008, 0.008], "comm_s": [0.005, 0.003], "exposed_comm_s": [0.003, 0.003],
        "wall_s": [0.012, 0.011], "idle_s": [0.001, 0.0], "overlap": [0.4, 0.0]}

STAGES = {  # a pipeline's program, of one microbatch: rank 0 has the embedding, rank 1 the head
    "name": ["embedding", "embedding.move", "head", "head, gradient", "head.gradient.move",
             "embedding, gradient", "gradients.0.all_reduce", "parameters.0.update"],
    "kind": ["compute", "collective", "compute", "compute", "collective", "compute", "collective",
             "compute"],
    "stream": ["compute", "down", "compute", "compute", "up", "compute", "comm", "compute"],
    "microbatch": [0, 0, 0, 0, 0, 0, -1, -1],
    "phase": ["forward"] * 3 + ["backward"] * 4 + ["update"],
    "collective": ["", "move", "", "", "move", "", "all_reduce", ""],
    "flops": [2_000_000, 0, 0, 0, 0, 3_000_000, 0, 1000],  # of rank 0, as the bytes
    "bytes": [100, 200, 0, 0, 200, 300, 500, 600],
}
# As TIMES, of the instructions that the rank runs.
STAGE_TIMES = [{0: (10, 12), 1: (12, 13), 4: (13, 17), 5: (17, 18), 6: (16, 19), 7: (19, 20)},
               {1: (10, 13), 2: (13, 15), 3: (15, 16), 4: (16, 17), 6: (16, 19), 7: (20, 21)}]
STAGE_BUSY = {"compute_s": [0.004, 0.004], "comm_s": [0.007, 0.006], "exposed_comm_s": [0.006, 0.006],
              "wall_s": [0.010, 0.011], "idle_s": [0.0, 0.001], "overlap": [1 / 7, 0.0],
              "pipeline_idle_s": [0.004, 0.004]}
# (start, end) of the instructions in milliseconds, as predicted.
STAGES_PREDICTED = [(0, 2), (2, 3), (3, 5), (5, 6), (6, 7), (7, 8), (7, 9), (9, 10)]


def add_distinct(file):
    """Adds the flops and bytes of both ranks to a file of STAGES."""
    file["program/distinct/rank"] = [0, 1]
    for name, of_head in (("flops", (4_000_000, 6_000_000)), ("bytes", (1000, 2000))):
        first = numpy.array(STAGES[name])
        second = first.copy()
        second[[0, 5]], second[[2, 3]] = 0, of_head
        file[f"program/distinct/{name}"] = [first, second]


def write_stages(path, **options):
    """write() of a pipeline, with a prediction and the work of both ranks."""
    file = write(path, program=STAGES, times=STAGE_TIMES, **options)
    start, end = SECOND * numpy.array(STAGES_PREDICTED, dtype=float).T
    file["program/predicted_start_s"], file["program/predicted_s"] = start, end - start
    add_distinct(file)
    return file


def write(path, steps=(1, 2), events_of_last=12, program=None, times=None):
    """Writes a timing file and returns it open. Step s is a hundred s later than TIMES. `times`: a list of
    all instructions' times for each rank, or a dictionary of those that it runs."""
    program, times = program or PROGRAM, times or TIMES
    file = h5py.File(path, "w", libver="latest")
    file.attrs.update(model="tiny", world_size=len(times), device="cpu", program_version="0.1.0")
    file.attrs["hostnames"] = numpy.array(["a", "b"][:len(times)], dtype=h5py.string_dtype())
    file["strategy/text"] = "mesh: {}\n"
    file["strategy"].attrs["name"] = "dp"
    for name, column in program.items():
        text = isinstance(column[0], str)
        file.create_dataset(f"program/{name}", data=column,
                            dtype=h5py.string_dtype() if text else "i8")
    rows = [(step, rank, instruction, SECOND * (start + 1e5 * step), SECOND * (end + 1e5 * step))
            for step in steps for rank, of_rank in enumerate(times)
            for instruction, (start, end) in
            (of_rank.items() if isinstance(of_rank, dict) else enumerate(of_rank))]
    rows = rows[:len(rows) - sum(map(len, times)) + events_of_last]
    for at, name in enumerate(("step", "rank", "instruction", "start_s", "end_s")):
        file.create_dataset(f"timeline/{name}", data=[row[at] for row in rows], chunks=(16,),
                            maxshape=(None,), dtype="f8" if name.endswith("_s") else "i8")
    return file


def extents_of(collections):
    """Returns (left, right, bottom, top) of all bars, sorted."""
    boxes = [path.get_extents() for bars in collections for path in bars.get_paths()]
    return sorted((round(box.x0, 6), round(box.x1, 6), box.y0, box.y1) for box in boxes)


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hidup-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = self.in_folder("run.h5")

    def in_folder(self, name):
        return os.path.join(self.folder, name)
