#!/usr/bin/python3
"""The command line of analysis: every command on small files, and its messages about bad ones.

    commands_test.py ANALYSIS_FOLDER [TEST...]
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy

ANALYSIS = sys.argv[1]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(ANALYSIS))
import analysis.__main__  # noqa: E402
from analysis import decks, expert_loads, facts, figures, hidup_timings  # noqa: E402
from analysis.commands import breakdown, experts, loss, roofline, shares  # noqa: E402
from sample_run import RESOLVED, write_run  # noqa: E402
from sample_timeline import SECOND, FolderTest  # noqa: E402
from scripts import script  # noqa: E402

FILE_COMMANDS = ("summary", "loss", "breakdown", "timeline", "roofline", "experts", "report")
figures.STYLE["figure.dpi"] = 50  # faster, and with the same layout


class CommandLine(unittest.TestCase):
    def test_overview_and_usage(self):
        overview = script("--help")
        self.assertEqual(overview.returncode, 0)
        for name, text in analysis.__main__.commands().items():
            self.assertIn(f"{name} ", overview.stdout)
            self.assertIn(text, overview.stdout)
            of_command = script(name, "--help")
            self.assertEqual(of_command.returncode, 0, of_command.stderr)
            self.assertIn(f"usage: analysis {name} ", of_command.stdout)
        for words in ([], ["lost"], ["loss"], ["loss", "--smooth", "0", "x"], ["summary", "-x"]):
            self.assertEqual(script(*words).returncode, 2, words)
        self.assertIn("no command lost", script("lost").stderr)

    def test_from_the_root_and_as_a_folder_from_elsewhere(self):
        root = os.path.dirname(ANALYSIS)
        for command, folder in ((["-m", "analysis"], root), ([ANALYSIS], os.path.dirname(root))):
            done = subprocess.run([sys.executable, "-B", *command, "summary", "none.h5"], cwd=folder,
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr, "analysis summary: error: none.h5: no such file\n")

    def test_another_python_first_in_path(self):
        """A Python without the modules, like pyenv's, starts Debian's; if that lacks them, it says so."""
        with tempfile.TemporaryDirectory() as folder:
            other = os.path.join(folder, "bin", "python3")
            os.mkdir(os.path.dirname(other))
            os.symlink("/usr/bin/python3", other)
            with open(os.path.join(folder, "pyvenv.cfg"), "w", encoding="utf-8") as file:
                file.write("home = /usr/bin\n")
            root = os.path.dirname(ANALYSIS)
            experiments = os.path.join(root, "jobs", "experiments", "run.py")
            for words in (["-m", "analysis", "summary", "none.h5"], [ANALYSIS, "summary", "none.h5"],
                          [experiments, "none"]):
                for python, expected in (([other], "no such file|no experiment 'none'"),
                                         (["/usr/bin/python3", "-S"], "no module .*package is python3-")):
                    done = subprocess.run([*python, "-B", *words], cwd=root, capture_output=True,
                                          text=True, check=False)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertRegex(done.stderr, expected)


class Decks(unittest.TestCase):
    def test_values_of_resolved_decks(self):
        self.assertEqual(decks.value(RESOLVED, "train.steps"), "12")
        self.assertEqual(decks.value(RESOLVED, "cluster.device.memory_bandwidth"), "10GB/s")
        self.assertEqual(decks.value(RESOLVED, "cluster.profile"), "auto")
        for key in ("steps", "cluster.steps", "device.flops", "cluster.device.memory"):
            self.assertIsNone(decks.value(RESOLVED, key))

    def test_quantities(self):
        for text, number in (("0.1TFLOPS", 1e11), ("10GB/s", 1e10), ("8Mbps", 1e6),
                             ("1e+03kB/s", 1e6), ("auto", None), ("", None), (None, None)):
            self.assertEqual(decks.quantity(text), number)


class Facts(FolderTest):
    def test_of_a_run(self):
        write_run(self.path)
        run = facts.of_run(self.path)
        expected = {"model": "tiny", "strategy": "dp", "steps": 10, "last_step": 10,
                    "planned_steps": 12, "wall_s": 0.04, "tokens_per_s": 25000, "slowest_rank": 1,
                    "compute_s": 0.03, "comm_s": 0.01, "exposed_comm_s": 0.006, "idle_s": 0.004,
                    "overlap": 0.4, "wall_over_larger": 4 / 3, "first_loss": 4.0,
                    "validation_loss": 2.5, "validated_step": 10, "peak_bytes": 3 << 20,
                    "prediction_error": 0.25, "predicted_comm_s": 0.02, "expert_imbalance": 2.0,
                    "dropped_share": 0.125, "unigram_entropy": None, "floor_s": 0.035}
        for name, value in expected.items():
            if isinstance(value, float):
                self.assertAlmostEqual(run[name], value, places=12, msg=name)
            else:
                self.assertEqual(run[name], value, name)
        self.assertAlmostEqual(run["last_loss"], 2 + 0.2 * sum(1 / s for s in range(1, 11)))

    def test_busy_times_are_means_of_the_rank_that_computes_longest(self):
        """The means are those of RunBusyTimes in tests/cost/busy_test.cpp."""
        write_run(self.path, steps=4)
        with h5py.File(self.path, "r+") as file:
            for name, values in (("compute_s", [[50, 40], [numpy.nan] * 2, [2, 4], [4, 3]]),
                                 ("comm_s", [[7, 9], [numpy.nan] * 2, [4, 2], [9, 4]]),
                                 ("exposed_comm_s", [[6, 8], [numpy.nan] * 2, [3, 1], [9, 1]])):
                file[f"ranks/{name}"][:] = values
        expected = {"slowest_rank": 1, "compute_s": 3.5, "comm_s": 3, "exposed_comm_s": 1,
                    "overlap": 2 / 3}
        run = facts.of_run(self.path)
        self.assertEqual({name: run[name] for name in expected}, expected)

    def test_idle_times_of_a_pipeline(self):
        write_run(self.path)
        self.assertIsNone(facts.of_run(self.path)["pipeline_idle_s"])
        self.assertNotIn("idle_s", hidup_timings.read_spans(self.path))
        write_run(self.path, stages=True)
        run = facts.of_run(self.path)
        numpy.testing.assert_allclose(run["pipeline_idle_s"], [0.012, 0.004])
        self.assertAlmostEqual(run["idle_s"], 0.004)  # the rest of the step
        numpy.testing.assert_allclose(hidup_timings.read_spans(self.path)["idle_s"][[0, -1]],
                                      [[0.5, 0.5], [0.012, 0.004]])
        frame = hidup_timings.read(self.path)
        numpy.testing.assert_allclose(frame["idle_s_mean"], [0.5] + [0.008] * 9)
        numpy.testing.assert_allclose(frame["idle_s_max"], [0.5] + [0.012] * 9)

    def test_names_tell_files_apart(self):
        self.assertEqual(facts.short_names(["a/x.h5", "b/y.h5"]), ["x", "y"])
        self.assertEqual(facts.short_names(["c/a/x.h5", "c/b/x.h5"]), ["a/x", "b/x"])

    def test_units(self):
        self.assertEqual([facts.seconds(s) for s in (2, 0.0331, 5e-6, 0, None)],
                         ["2 s", "33.1 ms", "5 µs", "0 µs", "–"])
        self.assertEqual([facts.size(s) for s in (12, 1 << 20, 3 << 50, None)],
                         ["12 B", "1 MiB", "3072 TiB", "–"])

    def test_loads_of_many_steps(self):
        write_run(self.path, steps=1001)
        with h5py.File(self.path, "r+") as file:
            file["experts/tokens"][500:, 1] = 7  # from step 501 on
        loads = expert_loads.read(self.path, bins=4)
        self.assertEqual(list(loads["load_step"]), [1, 252, 503, 754])
        numpy.testing.assert_allclose(loads["load"][[0, 3]], [
            [[2, 1, 0.5, 0.5]] * 2, [[2, 1, 0.5, 0.5], [1] * 4]])
        numpy.testing.assert_allclose(loads["imbalance"][[499, 500]], [[2, 2], [2, 1]])
        numpy.testing.assert_array_equal(loads["tokens"][[0, -1]], [[400, 400], [400, 28]])


class Summary(FolderTest):
    def test_table(self):
        write_run(self.path)
        other = self.in_folder("other.h5")
        write_run(other, name="larger")
        done = script("summary", self.path, other)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {line[:20].strip(): line.split() for line in done.stdout.splitlines()}
        self.assertEqual(done.stdout.split()[:2], ["run", "other"])
        self.assertEqual(rows["model"][1:], ["tiny", "larger"])
        self.assertEqual(rows["tokens/s"][1:], ["25,000"] * 2)
        self.assertEqual(rows["against measured"][2:], ["+25.0%"] * 2)
        self.assertEqual(rows["steps"][1:5], ["10", "(to", "step", "10"])

    def test_idle_time_of_a_pipeline(self):
        write_run(self.path)
        self.assertNotIn("pipeline idle", script("summary", self.path).stdout)
        write_run(self.path, stages=True)
        self.assertRegex(script("summary", self.path).stdout,
                         r"\n  pipeline idle +8 ms \(4 ms to 12 ms\)\n")

    def test_json(self):
        write_run(self.path)
        with h5py.File(self.path, "r+") as file:
            file["iterations/loss"][-1] = numpy.nan
        (run,) = json.loads(script("summary", "--json", self.path).stdout)["runs"]
        self.assertEqual((run["wall_s"], run["last_loss"]), (0.04, None))
        self.assertIn("not finite", script("summary", self.path).stdout)


class Drawn(FolderTest):
    def test_every_figure_of_several_runs(self):
        write_run(self.path)
        other = self.in_folder("other.h5")
        write_run(other, steps=300, layers=8)
        for name, *options in (("loss", "--log", "--smooth", "3"), ("breakdown",), ("roofline",),
                               ("breakdown", "--by", "operation"), ("experts",)):
            done = script(name, self.path, other, *options)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            stem = self.in_folder("breakdown-by-operation" if "--by" in options else name)
            self.assertEqual(done.stdout.splitlines(), [stem + ".png", stem + ".svg"])
            for ending, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
                with open(f"{stem}.{ending}", "rb") as file:
                    self.assertEqual(file.read(len(start)), start)

    def test_names_of_figures(self):
        write_run(self.path)
        stem = self.in_folder("my.own")
        for out in (stem, stem + ".svg", stem + ".png"):
            done = script("breakdown", self.path, "-o", out)
            self.assertEqual(done.stdout.splitlines(), [stem + ".png", stem + ".svg"])

    def labels(self, figure):
        self.addCleanup(figures.plt.close, figure)
        return [text.get_text() for axes in figure.axes if axes.get_legend()
                for text in axes.get_legend().get_texts()]

    def test_legends_say_what_is_drawn(self):
        write_run(self.path)
        self.assertIn("training, running\nmean of 3 steps",
                      self.labels(loss.draw([self.path], smooth=3)))
        self.assertIn("training", self.labels(loss.draw([self.path])))
        self.assertIn("validation", self.labels(loss.draw([self.path])))
        self.assertEqual(self.labels(breakdown.draw([self.path], "phase")), ["measured", "predicted"])
        with h5py.File(self.path, "r+") as file:
            del file["program/predicted_s"]
        self.assertEqual(self.labels(breakdown.draw([self.path], "phase")), ["measured"])

    def test_bars_of_a_step(self):
        write_run(self.path)
        figure = breakdown.draw([self.path])
        self.labels(figure)
        bars = [(round(bar.get_y(), 9), round(bar.get_height(), 9)) for bar in figure.axes[0].patches]
        self.assertEqual(bars, [(0, 30), (30, 6), (36, 4), (40, 4),  # measured
                                (0, 30), (30, 10), (40, 10), (50, 10)])  # predicted
        numbers = [(text.get_text(), text.xy[1]) for text in figure.axes[0].texts
                   if hasattr(text, "xy")]
        self.assertEqual([(text, round(height, 9)) for text, height in numbers],
                         [("40", 40), ("50", 50)])

    def test_times_by_group(self):
        write_run(self.path)
        times = breakdown.grouped(self.path, "kind")["measured_s"] / SECOND
        self.assertEqual(breakdown.used_steps(self.path), [2])
        # The times are the ranks' means.
        for name, expected in (("compute", 8.0), ("all_to_all", 2.0), ("all_reduce", 2.0)):
            self.assertAlmostEqual(times[name], expected, places=6)
        self.assertEqual(set(breakdown.grouped(self.path, "operation").index),
                         {"embedding", "layers.ffn.up", "layers.ffn.up.all_to_all",
                          "layers.ffn.up, weight gradient", "gradients.all_reduce", "parameters.update"})
        self.assertEqual(len(breakdown.largest([breakdown.grouped(self.path, "operation")])[0]), 6)

    def test_instructions_that_ranks_skip(self):
        write_run(self.path, stages=True)
        times = breakdown.grouped(self.path, "operation") / SECOND
        # A rank that skips an instruction spends no time on it.
        for name, measured, predicted in (("embedding", 1.0, 0.5), ("head", 1.0, 0.5),
                                          ("embedding.move", 2.0, 1.0), ("parameters.update", 1.0, 1.0)):
            numpy.testing.assert_allclose(times.loc[name, ["measured_s", "predicted_s"]],
                                          [measured, predicted], rtol=1e-6, err_msg=name)
        table = roofline.operations(self.path).set_index("operation")
        numpy.testing.assert_allclose(
            table.loc[["embedding", "head", "head, gradient"], "rate"] / 1e9, [1, 2, 6], rtol=1e-6)
        numpy.testing.assert_allclose(table.loc["head", ["intensity", "share"]].astype(float),
                                      [4000, 0.25], rtol=1e-6)

    def test_roofline(self):
        write_run(self.path)
        table = roofline.operations(self.path).set_index("operation")
        self.assertAlmostEqual(table.loc["layers.ffn.up", "rate"] / 2e9, 1, places=6)
        self.assertEqual(table.loc["layers.ffn.up", "intensity"], 20_000)
        self.assertAlmostEqual(table["share"].sum(), 1)
        self.assertEqual(roofline.peaks(self.path, None)[:2], (1e11, 1e10))
        self.assertIn("peaks, the cluster deck's (may be a guess):\n100 Gflop/s, 10 GB/s",
                      self.labels(roofline.draw([self.path])))
        with h5py.File(self.path, "r+") as file:
            del file["input/resolved"]
        known = self.labels(roofline.draw([self.path]))
        self.assertTrue(known[0].startswith("best seen in the run:\n"), known)
        profile = self.in_folder("mine.yaml")
        with open(profile, "w", encoding="utf-8") as file:
            file.write("  - {op: matmul, sizes: [2], flops: 4000, bytes: 10, seconds: 2e-06}\n"
                       "  - {op: add, sizes: [2], flops: 1, bytes: 3000, seconds: 1.0e-06}\n")
        self.assertEqual(roofline.peaks(self.path, profile)[:2], (2e9, 3e9))
        self.assertIn("peaks, best of profile mine.yaml:\n2 Gflop/s, 3 GB/s",
                      self.labels(roofline.draw([self.path], profile)))
        with open(profile, "w", encoding="utf-8") as file:
            file.write("cluster: {}\n")
        failed = script("roofline", self.path, "--profile", profile)
        self.assertEqual(failed.returncode, 2)
        self.assertIn(f"{profile}: not a profile of hidup", failed.stderr)

    def test_experts_of_many_layers_have_a_mean(self):
        write_run(self.path, layers=8)
        self.assertEqual(self.labels(experts.draw([self.path])),
                         ["range of these layers", "mean of 8 MoE layers"])

    def test_shares(self):
        """The second change was undone after its last step, 9."""
        write_run(self.path, steps=12)
        self.assertIn("its run did not adapt", script("shares", self.path).stderr)
        with h5py.File(self.path, "r+") as file:
            group = file.create_group("adapt")
            for name, values in (("step", (3, 8)), ("last", (5, 9)), ("before_s", (0.2, 0.1)), ("kept", (1, 0)),
                                 ("after_s", (0.1, 0.3)), ("spread_s", (0.01, 0.01)),
                                 ("shares", ((0.7, 0.3), (0.1, 0.9))), ("shares_at_start", (0.5, 0.5))):
                group[name] = values
        trials, start = hidup_timings.read_adapt(self.path)
        at, parts = shares.courses(trials, start, 12)
        self.assertEqual(at.tolist(), [1, 3, 8, 10, 13])
        self.assertEqual(parts.tolist(), [[0.5, 0.5], [0.7, 0.3], [0.1, 0.9], [0.7, 0.3]])
        self.assertEqual(self.labels(shares.draw(self.path)),
                         ["step (wall)", "change, kept", "change, undone", "rank 0", "rank 1"])
        self.assertEqual(script("shares", self.path, "-o", self.in_folder("s.png")).returncode, 0)

    def test_few_points_of_long_runs_keep_outliers(self):
        values = numpy.zeros(100_000)
        values[[77_777, 33_333]] = 9, -5
        x, y = figures.thinned(numpy.arange(100_000), values)
        self.assertLessEqual(len(x), figures.MOST_POINTS)
        self.assertEqual((x[y.argmax()], x[y.argmin()]), (77_777, 33_333))
        self.assertTrue((numpy.diff(x) > 0).all())
        self.assertIn("of every 50 steps", figures.thinning(100_000))
        self.assertEqual(figures.thinning(4000), "")
        gap = figures.thinned(numpy.arange(9000), numpy.full(9000, numpy.nan))
        self.assertTrue(numpy.isnan(gap[1]).all())


class BadFiles(FolderTest):
    def assert_fails(self, text, commands=FILE_COMMANDS):
        for name in commands:
            failed = script(name, self.path)
            self.assertEqual((failed.returncode, failed.stdout), (2, ""), name)
            self.assertRegex(failed.stderr, f"^analysis {name}: error: {self.path}: {text}")
            self.assertEqual(failed.stderr.count("\n"), 1, failed.stderr)

    def test_no_timing_file(self):
        self.assert_fails("no such file")
        for content in (b"", b"x", b"{", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" + bytes(100)):
            with open(self.path, "wb") as file:
                file.write(content)
            commands = FILE_COMMANDS if content != b"{" else ("summary", "loss", "report")
            self.assert_fails("not a readable HDF5 file", commands)
        with h5py.File(self.path, "w") as file:  # of --dump-gradients, for example
            file["a.weight"] = [1.0]
        self.assert_fails("no /iterations", ("summary", "loss", "breakdown", "report"))

    def test_truncated(self):
        write_run(self.path)
        with open(self.path, "rb") as file:
            whole = file.read()
        for killed in (False, True):  # h5py reads zeros at the end of a killed run's file
            for length in (len(whole) - 1, len(whole) // 2, 100):
                with open(self.path, "wb") as file:
                    file.write(whole[:11] + bytes([5 if killed else 0]) + whole[12:length])
                self.assert_fails("truncated: ")

    def test_nothing_finished_yet(self):
        write_run(self.path, steps=0)
        self.assert_fails("holds no finished step yet", ("summary", "loss", "breakdown", "experts",
                                                         "report"))

    def test_missing_parts(self):
        write_run(self.path)
        with h5py.File(self.path, "r+") as file:
            del file["timeline"], file["experts"], file["ranks/comm_s"]
        self.assert_fails("holds no timeline", ("timeline", "roofline"))
        self.assert_fails("the model has no experts", ("experts",))
        self.assert_fails("no /ranks/comm_s", ("summary", "loss", "breakdown", "report"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
