"""A timing file with a timeline, for tests of its readers."""

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


def write(path, steps=(1, 2), events_of_last=12, program=None, times=None):
    """Writes a timing file and returns it open. Step s is a hundred s later than TIMES."""
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
            for instruction, (start, end) in enumerate(of_rank)]
    rows = rows[:len(rows) - len(times) * len(times[0]) + events_of_last]
    for at, name in enumerate(("step", "rank", "instruction", "start_s", "end_s")):
        file.create_dataset(f"timeline/{name}", data=[row[at] for row in rows], chunks=(16,),
                            maxshape=(None,), dtype="f8" if name.endswith("_s") else "i8")
    return file


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hidup-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = self.in_folder("run.h5")

    def in_folder(self, name):
        return os.path.join(self.folder, name)
