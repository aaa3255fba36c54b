#!/usr/bin/python3
"""The commands of analysis, on a run in progress and on the same run once killed.

    analysis_test.py TIMING_WRITER ANALYSIS_FOLDER
"""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy

WRITER, ANALYSIS = sys.argv[1:3]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(ANALYSIS))
from analysis import hidup_timings  # noqa: E402
from analysis.commands import compare  # noqa: E402
from scripts import script  # noqa: E402


class Run(unittest.TestCase):
    """One killed run, read by several tests."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.path = os.path.join(cls.folder, "run.h5")
        with subprocess.Popen([WRITER, cls.path], stdout=subprocess.PIPE, text=True) as writer:
            try:
                cls.wait_for(writer, 100)
                cls.alive = hidup_timings.read(cls.path)
                cls.picture_alive = script("loss", cls.path, "-o", cls.path + "-alive.png")
                cls.flushed = cls.wait_for(writer, 1200)  # beyond a chunk's border
            finally:
                writer.kill()
        cls.frame = hidup_timings.read(cls.path)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @staticmethod
    def wait_for(writer, step):
        """Reads the writer's reports until `step` is flushed."""
        flushed = 0
        while flushed < step:
            flushed = int(writer.stdout.readline().removeprefix("flushed "))
        return flushed

    def test_rows_are_there_while_it_runs_and_after_the_kill(self):
        self.assertGreaterEqual(len(self.alive), 100)
        self.assertGreaterEqual(len(self.frame), self.flushed)
        for frame in (self.alive, self.frame):
            steps = numpy.arange(1, len(frame) + 1)
            numpy.testing.assert_array_equal(frame.index, steps)
            numpy.testing.assert_allclose(frame["loss"], 2 + 2 / (1 + 0.01 * steps))
            numpy.testing.assert_allclose(frame["comm_s_mean"], 0.021 + 0.0001 * (steps % 10))
            numpy.testing.assert_allclose(frame["comm_s_max"], 0.022 + 0.0001 * (steps % 10))

    def test_loads_of_the_experts(self):
        loads = hidup_timings.read_experts(self.path)
        self.assertEqual(list(loads.columns), ["tokens", "dropped"])
        steps, layers, experts = (loads.index.get_level_values(name).to_numpy()
                                  for name in ("step", "layer", "expert"))
        self.assertGreaterEqual(len(loads), self.flushed * 2 * 5)
        self.assertEqual(len(loads) % (2 * 5), 0)
        self.assertEqual((set(layers), set(experts)), ({0, 1}, {0, 1, 2, 3, 4}))
        expected = 10 * steps + 5 * layers + experts
        numpy.testing.assert_array_equal(loads["dropped"], expected)
        numpy.testing.assert_array_equal(loads["tokens"], 1000 + expected)
        self.assertEqual(loads.loc[(7, 1, 3), "dropped"], 78)

    def test_validation(self):
        frame = hidup_timings.read_validation(self.path)
        self.assertGreaterEqual(len(frame), self.flushed // 50)
        steps = 50 * numpy.arange(1, len(frame) + 1)
        numpy.testing.assert_array_equal(frame.index, steps)
        numpy.testing.assert_allclose(frame["loss"], 2.5 + 1 / steps)

    def test_a_model_without_experts(self):
        path = os.path.join(self.folder, "dense.h5")
        with h5py.File(path, "w") as file:
            file["iterations/step"] = [1, 2]
        with self.assertRaisesRegex(KeyError, "dense.h5: the model has no experts"):
            hidup_timings.read_experts(path)

    def test_tables_and_attributes(self):
        program = hidup_timings.read_table(self.path, "program")
        self.assertEqual(list(program["name"]), ["embed", "embed.grad"])
        self.assertEqual(list(program["microbatch"]), [0, -1])
        self.assertEqual(hidup_timings.read_strategy(self.path),
                         {"name": "dp", "hash": "89abcdef01234567", "search_s": 0.0,
                          "text": "format_version: 1\n"})
        attributes = hidup_timings.read_attributes(self.path)
        self.assertEqual(attributes["model"], "tiny")
        self.assertEqual(list(attributes["hostnames"]), ["node-0", "node-0", "node-1"])
        self.assertEqual(list(attributes["environment"]), [])
        with hidup_timings.open_file(self.path) as file:
            self.assertEqual(file["iterations/wall_s"].attrs["unit"], "s")

    def test_pictures(self):
        self.assertEqual(self.picture_alive.returncode, 0, self.picture_alive.stderr)
        drawn = script("loss", self.path)
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        names = [os.path.join(self.folder, f"run-loss.{ending}") for ending in ("png", "svg")]
        self.assertEqual(drawn.stdout.splitlines(), names)
        with open(names[0], "rb") as picture:
            self.assertEqual(picture.read(8), b"\x89PNG\r\n\x1a\n")

    def compare_losses(self, factors, *options):
        """Returns the script's verdict on this run against one with losses times these factors, by step."""
        path = os.path.join(self.folder, "other.h5")
        with hidup_timings.open_file(self.path) as killed, h5py.File(path, "w") as file:
            for group in ("iterations", "ranks"):
                killed.copy(group, file)
            for step, factor in factors.items():
                file["iterations/loss"][step - 1] *= factor
        return script("compare", "losses", self.path, path, *options)

    def test_losses_up_to_rounding_are_equal(self):
        self.assertEqual(self.compare_losses({}).returncode, 0)
        self.assertEqual(self.compare_losses({7: 1 + 1.9e-5}).returncode, 0)
        other = self.compare_losses({7: 1 + 2.1e-5})
        self.assertEqual(other.returncode, 1)
        self.assertIn("2.100e-05  step 7\n", other.stdout)
        self.assertEqual(self.compare_losses({7: 1.1}, "--rtol", "0.2").returncode, 0)

    def test_rounding_that_later_steps_amplified(self):
        late = {21: 1.1, 90: 1.5}
        self.assertEqual(self.compare_losses(late).returncode, 0)
        self.assertIn("20 compared", self.compare_losses(late).stdout)
        self.assertEqual(self.compare_losses(late, "--steps", "21").returncode, 1)

    def test_missing_and_bad_files(self):
        bad = os.path.join(self.folder, "bad.h5")
        with open(bad, "w", encoding="utf-8") as file:
            file.write("not HDF5")
        for path in (bad, os.path.join(self.folder, "none.h5")):
            for name, *arguments in (("loss", path),
                                     ("compare", "losses", path, path)):
                failed = script(name, *arguments)
                self.assertEqual(failed.returncode, 2)
                self.assertIn(f"analysis {name}: error: {path}: ", failed.stderr)
                self.assertNotIn("Traceback", failed.stderr)


class Segments(unittest.TestCase):
    """A training that was resumed twice: runs of 1 to 3 ranks, in two folders."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.mkdir(os.path.join(self.folder, "b"))
        self.whole = self.write("whole.h5", 1, 12, 1)
        self.first = self.write("first.h5", 1, 6, 3)  # 5 and 6 were lost
        self.second = self.write("b/second.h5", 5, 9, 2, ("../first.h5", 4))
        self.third = self.write("b/third.h5", 9, 12, 1, ("second.h5", 8))

    def write(self, name, first, last, ranks, continued=None):
        path = os.path.join(self.folder, name)
        steps = numpy.arange(first, last + 1)
        with h5py.File(path, "w") as file:
            file.attrs.update(model="tiny", device="cpu", world_size=ranks)
            if continued:
                file.attrs.update(continued_from=continued[0], continued_at_step=continued[1])
            file["iterations/step"] = steps
            file["iterations/loss"] = 4 / steps
            file["iterations/wall_s"] = numpy.full(len(steps), 0.1 * ranks)
            for column in ("compute_s", "comm_s", "exposed_comm_s"):
                file[f"ranks/{column}"] = numpy.full((len(steps), ranks), 0.01)
            file["validation/step"] = steps[steps % 2 == 0]
            file["validation/loss"] = 5 / steps[steps % 2 == 0]
        return path

    def test_are_joined_up_to_the_step_from_which_the_next_goes_on(self):
        self.assertEqual(hidup_timings.segments(self.third),
                         [(os.path.join(self.folder, "b", "../first.h5"), 4), (self.second, 8),
                          (self.third, None)])
        frame = hidup_timings.read(self.third)
        numpy.testing.assert_array_equal(frame.index, range(1, 13))
        numpy.testing.assert_allclose(frame["loss"], 4 / frame.index)
        numpy.testing.assert_allclose(frame["wall_s"], [0.3] * 4 + [0.2] * 4 + [0.1] * 4)
        self.assertEqual(list(hidup_timings.read(self.third, join=False).index), [9, 10, 11, 12])
        validation = hidup_timings.read_validation(self.third)
        self.assertEqual(list(validation.index), [2, 4, 6, 8, 10, 12])
        self.assertEqual(list(hidup_timings.read_validation(self.first, join=False).index), [2, 4, 6])

    def test_of_a_run_that_went_back_further(self):
        with h5py.File(self.third, "r+") as file:
            file.attrs["continued_at_step"] = 2
            file["iterations/step"][:] = [3, 4, 5, 6]
        self.assertEqual(list(hidup_timings.read(self.third).index), [1, 2, 3, 4, 5, 6])

    def test_that_are_missing_are_a_warning(self):
        os.remove(self.first)
        with contextlib.redirect_stderr(io.StringIO()) as stderr:
            frame = hidup_timings.read(self.third)
        self.assertEqual(list(frame.index), list(range(5, 13)))
        self.assertIn("second.h5 goes on from step 4 of another run, which is left out: ",
                      stderr.getvalue())
        with h5py.File(self.second, "r+") as file:
            file.attrs["continued_from"] = "third.h5"
        with contextlib.redirect_stderr(io.StringIO()) as stderr:
            self.assertEqual(len(hidup_timings.read(self.third)), 8)
        self.assertIn("goes on from itself", stderr.getvalue())

    def test_without_validation(self):
        with h5py.File(self.second, "r+") as file:
            del file["validation"]
        self.assertEqual(list(hidup_timings.read_validation(self.third).index), [2, 4, 10, 12])
        self.assertTrue(hidup_timings.read_validation(self.second, join=False).empty)

    def test_compared_and_drawn(self):
        same = script("compare", "losses", self.whole, self.third)
        self.assertEqual((same.returncode, same.stderr), (0, ""))
        self.assertIn("12 compared", same.stdout)
        drawn = script("loss", self.third)
        self.assertEqual((drawn.returncode, drawn.stderr), (0, ""))
        self.assertTrue(os.path.exists(os.path.join(self.folder, "b", "third-loss.png")))


class Gradients(unittest.TestCase):
    def compare(self, first, second, *options):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("a.h5", "b.h5")]
            for path, tensors in zip(paths, (first, second)):
                with h5py.File(path, "w") as file:
                    file.attrs["loss"] = 2.0
                    for name, values in tensors.items():
                        file[name] = numpy.array(values, dtype="f4")
            return script("compare", "gradients", *paths, *options)

    def test_the_worst_tensor_decides(self):
        result = self.compare({"a": [1, 2], "b": [10, 0]}, {"a": [1, 2], "b": [10, 0.01]})
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("1.000e-03  b\n", result.stdout)
        result = self.compare({"b": [10, 0]}, {"b": [10, 0.01]}, "--rtol", "0.002")
        self.assertEqual(result.returncode, 0, result.stdout)
        result = self.compare({"b": [10, 0]}, {"b": [10, 0.0009]})
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_differences_that_are_no_numbers(self):
        self.assertEqual(self.compare({"a": [1]}, {"b": [1]}).returncode, 1)
        self.assertEqual(self.compare({"a": [1, 1]}, {"a": [1]}).returncode, 1)
        self.assertEqual(self.compare({"a": [numpy.nan]}, {"a": [numpy.nan]}).returncode, 1)
        self.assertEqual(compare.relative_error([0.0], [1.0]), float("inf"))
        self.assertEqual(compare.relative_error([0.0], [0.0]), 0.0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
