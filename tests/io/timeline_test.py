#!/usr/bin/python3
"""Timelines that analysis reads, measures, draws and exports.

    timeline_test.py ANALYSIS_FOLDER [TEST...]
"""

import json
import os
import sys
import unittest

import h5py
import numpy

ANALYSIS = sys.argv[1]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(ANALYSIS))
from analysis import hidup_timings  # noqa: E402
from analysis.busy import busy_times, difference, union  # noqa: E402
from analysis.commands import timeline  # noqa: E402
from sample_timeline import (BUSY, PROGRAM, SECOND, TIMES, FolderTest, extents_of,  # noqa: E402
                             write)
from scripts import script  # noqa: E402

SCRIPTS = ("timeline", "trace")
EXPOSED = [[(13, 14), (19, 21)], [(14, 15), (19, 21)]]


class Intervals(unittest.TestCase):
    def test_union_and_difference_of_random_intervals(self):
        random = numpy.random.default_rng(1)
        cells = numpy.arange(0, 31) + 0.5  # of a time axis from 0 to 31
        for _ in range(300):
            pairs = [numpy.sort(random.integers(0, 31, (random.integers(0, 8), 2)), axis=1)
                     for _ in range(2)]
            first, second = ([any(a < cell < b for a, b in each) for cell in cells]
                             for each in pairs)
            for found, expected in (
                    (union(pairs[0]), first),
                    (difference(*pairs),
                     [one and not other for one, other in zip(first, second)])):
                self.assertEqual([sum(a < cell < b for a, b in found) for cell in cells], expected)
                ends = [end for a, b in found if b > a for end in (a, b)]
                self.assertEqual(ends, sorted(ends))

    def test_nothing(self):
        self.assertEqual(union([]).shape, (0, 2))
        self.assertEqual(difference([], []).shape, (0, 2))


class Reading(FolderTest):
    def test_events_of_a_step(self):
        write(self.path).close()
        events = hidup_timings.read_timeline(self.path, 1)
        self.assertEqual(list(events["rank"]), [0, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1])
        self.assertEqual(list(events["instruction"]), [0, 1, 0, 2, 1, 3, 2, 3, 4, 4, 5, 5])
        self.assertEqual(set(events["step"]), {1})
        for name, column in PROGRAM.items():
            self.assertEqual(list(events[name]), [column[i] for i in events["instruction"]], name)
        numpy.testing.assert_allclose(events["end_s"][3], 100.015, rtol=1e-12)

    def test_the_last_complete_step_is_the_default(self):
        for written, expected in ((12, 3), (11, 2), (0, 2)):
            write(self.path, steps=(1, 2, 3), events_of_last=written).close()
            self.assertEqual(set(hidup_timings.read_timeline(self.path)["step"]), {expected})
            self.assertEqual(hidup_timings.timeline_steps(self.path), list(range(1, expected + 1)))

    def test_busy_times(self):
        write(self.path).close()
        busy = busy_times(hidup_timings.read_timeline(self.path))
        self.assertEqual(list(busy.index), [0, 1])
        self.assertEqual(list(busy.columns), list(BUSY))
        for name, values in BUSY.items():
            numpy.testing.assert_allclose(busy[name], values, rtol=1e-8, atol=1e-10, err_msg=name)

    def test_a_rank_without_communication(self):
        silent = {name: [column[0]] for name, column in PROGRAM.items()}
        write(self.path, program=silent, times=[[(1, 3)]], events_of_last=1).close()
        busy = busy_times(hidup_timings.read_timeline(self.path)).loc[0]
        numpy.testing.assert_allclose(busy[["compute_s", "comm_s", "exposed_comm_s", "idle_s"]],
                                      [0.002, 0, 0, 0], atol=1e-10)
        self.assertTrue(numpy.isnan(busy["overlap"]))

    def test_overlap_does_not_depend_on_idle_time(self):
        # The rank computes for 1 ms and communicates for 1 ms, within 12 ms.
        two = {name: [column[0], column[2]] for name, column in PROGRAM.items()}
        write(self.path, program=two, times=[[(0, 1), (11, 12)]], events_of_last=2).close()
        busy = busy_times(hidup_timings.read_timeline(self.path)).loc[0]
        self.assertEqual(busy["overlap"], 0.0)

    def test_overlap_is_a_part_of_communication_though_computation_is_shorter(self):
        two = {name: [column[0], column[2]] for name, column in PROGRAM.items()}
        write(self.path, program=two, times=[[(0, 2), (1, 11)]], events_of_last=2).close()
        busy = busy_times(hidup_timings.read_timeline(self.path)).loc[0]
        numpy.testing.assert_allclose(busy[["exposed_comm_s", "overlap"]], [0.009, 0.1], rtol=1e-6)


# (start, end) of PROGRAM's instructions in milliseconds.
PREDICTED = [(0, 2), (2, 4), (3, 6), (6, 9), (9, 11), (11, 12)]


def predict(file):
    """Adds the prediction to a file of write()."""
    start, end = SECOND * numpy.array(PREDICTED, dtype=float).T
    file["program/predicted_start_s"], file["program/predicted_s"] = start, end - start


class Predictions(FolderTest):
    def test_none(self):
        write(self.path).close()
        self.assertIsNone(hidup_timings.read_prediction(self.path))

    def test_events_and_busy_times(self):
        with write(self.path) as file:
            predict(file)
        events = hidup_timings.read_prediction(self.path)
        self.assertEqual(list(events["instruction"]), [0, 1, 2, 3, 4, 5])
        numpy.testing.assert_allclose(events[["start_s", "end_s"]], SECOND * numpy.array(PREDICTED))
        busy = busy_times(events).loc[-1]
        numpy.testing.assert_allclose(
            busy[["compute_s", "comm_s", "exposed_comm_s", "wall_s"]],
            [0.008, 0.005, 0.004, 0.012])

    def test_the_picture_has_it_above_the_ranks(self):
        with write(self.path) as file:
            predict(file)
        measured = timeline.measured_panels(self.path, None, None)[0]
        predicted = timeline.predicted_panels(self.path, measured)
        self.assertEqual([panel.label for panel in predicted + measured],
                         ["predicted", "rank 0", "rank 1"])
        numpy.testing.assert_allclose(predicted[0].events[["start", "end"]], PREDICTED)
        numpy.testing.assert_allclose(predicted[0].exposed, [(4, 6), (9, 11)])
        result = script("timeline", self.path)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_trace_has_it_as_a_process(self):
        with write(self.path) as file:
            predict(file)
        result = script("trace", self.path, "--steps", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(result.stdout.strip(), encoding="utf-8") as trace:
            events = json.load(trace)["traceEvents"]
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(names, {-1: "predicted", 0: "rank 0 (a)", 1: "rank 1 (b)"})
        predicted = [e for e in events if e["ph"] == "X" and e["pid"] == -1]
        first = min(e["ts"] for e in events if e["ph"] == "X" and e["pid"] == 0)
        self.assertEqual(len(predicted), len(PREDICTED))
        self.assertAlmostEqual(min(e["ts"] for e in predicted), first, places=2)


class Pictures(FolderTest):
    def panels(self, **options):
        write(self.path, **options).close()
        return timeline.measured_panels(self.path, None, None)[0]

    def test_what_is_drawn(self):
        panels = self.panels()
        figure = timeline.draw(panels, "the heading")
        self.addCleanup(timeline.plt.close, figure)
        self.assertEqual([axes.get_ylabel() for axes in figure.axes], ["rank 0", "rank 1"])
        self.assertEqual(list(timeline.lanes_of(panels)), ["compute", "comm"])
        for rank, axes in enumerate(figure.axes):
            self.assertEqual([label.get_text() for label in axes.get_yticklabels()],
                             ["compute", "communication"])
            hatched = [bars for bars in axes.collections if bars.get_hatch()]
            self.assertEqual(extents_of(hatched),
                             [(a - 10, b - 10, *self.lane("compute")) for a, b in EXPOSED[rank]])
            bars = [bars for bars in axes.collections if not bars.get_hatch()]
            self.assertEqual(
                [box for box in extents_of(bars) if box[3] <= sum(timeline.COMPUTE)],
                sorted((a - 10, b - 10, *self.lane(PROGRAM["stream"][i]))
                       for i, (a, b) in enumerate(TIMES[rank])))
            texts = [text.get_text().replace("\n", "") for text in axes.texts]
            for expected in ("forward", "backward", "update", *PROGRAM["name"][1:]):
                self.assertIn(expected, texts)
        beside = figure.axes[0].texts[-1].get_text()
        self.assertRegex(beside, r"compute +8.00 ms\ncommunication +5.00 ms\nexposed +3.00 ms\n"
                                 r"idle +1.00 ms\nwall +12.00 ms\noverlap ratio +40.0%$")
        legend = [text.get_text() for text in figure.legends[0].get_texts()]
        self.assertEqual(legend, ["microbatch 0", "microbatch 1", "parameters, gradients", "forward",
                                  "backward", "update", "exposed: only communication runs"])

    @staticmethod
    def lane(stream):
        low, size = timeline.LANES[stream]
        return low, low + size

    def test_colours_tell_microbatches_and_phases_apart(self):
        for count in (1, 4, 5, 32):
            colours = {timeline.shade(microbatch, phase, count)
                       for microbatch in range(-1, count) for phase in ("forward", "backward")}
            self.assertEqual(len(colours), 2 * (count + 1))

    def test_names_fit_or_are_left_out(self):
        name = "layers.11.moe.experts.down, weight gradient"
        self.assertEqual(timeline.fit(name, 400, 50), (name, 0))
        self.assertEqual(timeline.fit(name, 12, 400), (name, 90))
        text, angle = timeline.fit(name, 110, 50)
        self.assertEqual((text.count("\n"), text.replace("\n", ""), angle), (1, name, 0))
        self.assertLessEqual(timeline.text_size(text)[0], 110)
        self.assertIsNone(timeline.fit(name, 7, 400))
        self.assertIsNone(timeline.fit(name, 30, 30))

    def test_48_layers_of_16_microbatches(self):
        layers, microbatches = 48, 16
        count = 2 * layers * microbatches
        program = {"name": [f"layers.{i // 32}.x" for i in range(count)],
                   "kind": ["compute", "collective"] * (count // 2),
                   "stream": ["compute", "comm"] * (count // 2),
                   "microbatch": [i // 2 % microbatches for i in range(count)],
                   "phase": ["forward"] * count, "collective": ["", "all_reduce"] * (count // 2),
                   "flops": [0] * count, "bytes": [0] * count}
        panels = self.panels(program=program, events_of_last=2 * count,
                             times=[[(i, i + 1.01) for i in range(count)]] * 2)
        figure = timeline.draw(panels, "the heading")
        self.addCleanup(timeline.plt.close, figure)
        legend = [text.get_text() for text in figure.legends[0].get_texts()]
        self.assertEqual(legend, ["microbatch 0", "microbatch 8", "microbatch 15", "forward",
                                  "exposed: only communication runs"])
        # No bar is wide enough for a name, so only the phase and the numbers are written.
        self.assertEqual(len(figure.axes[0].texts), 2)

    def test_a_picture_while_the_file_is_written(self):
        with write(self.path) as file:
            file.swmr_mode = True
            self.assertGreater(self.height(), self.height("--ranks", "1", "--step", "1"))

    def height(self, *arguments):
        """Returns the height of the picture that the script draws, in pixels."""
        drawn = script("timeline", self.path, *arguments)
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        self.assertEqual(drawn.stdout.splitlines(),
                         [self.in_folder(f"run-timeline.{ending}") for ending in ("png", "svg")])
        with open(self.in_folder("run-timeline.png"), "rb") as picture:
            start = picture.read(24)
        self.assertEqual(start[:8], b"\x89PNG\r\n\x1a\n")
        return int.from_bytes(start[20:24], "big")

    def test_of_many_ranks_the_first_are_drawn(self):
        panels = self.panels(times=[TIMES[0]] * 11, events_of_last=66)
        self.assertEqual([panel.label for panel in panels], [f"rank {r}" for r in range(8)])
        self.assertTrue(timeline.heading(self.path, 2, 8).endswith(
            "tiny, dp on 11 ranks (cpu): step 2, 8 of them shown"))


class Traces(FolderTest):
    def export(self, *arguments):
        done = script("trace", self.path, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(done.stdout.rstrip("\n"), encoding="utf-8") as file:
            return json.load(file)

    def test_events(self):
        with write(self.path) as file:
            file.swmr_mode = True
            trace = self.export("--steps", "1")
        self.assertEqual(trace["otherData"]["strategy"], "dp")
        events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        self.assertEqual(len(events), 12)
        message = next(e for e in events if e["name"] == "layers.0.ffn.up.all_to_all")
        self.assertEqual(message, {
            "ph": "X", "name": "layers.0.ffn.up.all_to_all", "cat": "forward", "pid": 0, "tid": 1,
            "ts": 100_012_000.0, "dur": 3000.0,
            "args": {"step": 1, "instruction": 2, "kind": "collective", "microbatch": 1,
                     "collective": "all_to_all", "flops": 0, "bytes": 3_000_000,
                     "GB/s": message["args"]["GB/s"]}})
        self.assertAlmostEqual(message["args"]["GB/s"], 1.0, places=6)
        product = next(e for e in events if e["name"] == "layers.0.ffn.up" and e["pid"] == 1)
        self.assertEqual((product["tid"], product["ts"], product["dur"]), (0, 100_012_000, 2000))
        self.assertAlmostEqual(product["args"]["GFLOP/s"], 2.0, places=6)
        self.assertNotIn("collective", product["args"])

    def test_names_of_processes_and_threads(self):
        write(self.path).close()
        named = {(e["name"], e["pid"], e["tid"]): e["args"]
                 for e in self.export()["traceEvents"] if e["ph"] == "M"}
        self.assertEqual(named["process_name", 1, 0], {"name": "rank 1 (b)"})
        threads = {(rank, thread): values["name"] for (name, rank, thread), values in named.items()
                   if name == "thread_name"}
        self.assertEqual(threads, {(0, 0): "compute", (0, 1): "communication",
                                   (1, 0): "compute", (1, 1): "communication"})

    def test_steps(self):
        write(self.path, steps=(1, 2, 3, 10)).close()
        for argument, expected in (("1-2", {1, 2}), ("2", {2}), ("2-20", {2, 3, 10}),
                                   ("1,10", {1, 10})):
            events = self.export("--steps", argument)["traceEvents"]
            self.assertEqual({e["args"]["step"] for e in events if e["ph"] == "X"}, expected)
        events = self.export("-o", self.in_folder("all.json"))["traceEvents"]
        self.assertEqual(sum(e["ph"] == "X" for e in events), 48)

    def test_events_that_follow_each_other_do_not_overlap(self):
        chain = numpy.random.default_rng(1).random(7).cumsum()
        one_stream = {**PROGRAM, "stream": ["compute"] * 6}
        write(self.path, program=one_stream, times=[list(zip(chain, chain[1:]))],
              events_of_last=6).close()
        events = [e for e in self.export("--steps", "2")["traceEvents"] if e["ph"] == "X"]
        for first, second in zip(events, events[1:]):
            self.assertEqual(round(1000 * (first["ts"] + first["dur"])), round(1000 * second["ts"]))
            self.assertEqual(1000 * second["ts"], round(1000 * second["ts"]))


class Failures(FolderTest):
    def assert_fails(self, code, *texts, scripts=SCRIPTS, arguments=()):
        before = sorted(os.listdir(self.folder))
        for name in scripts:
            failed = script(name, self.path, *arguments)
            self.assertEqual((failed.returncode, failed.stdout), (code, ""), failed.stderr)
            self.assertTrue(failed.stderr.splitlines()[-1].startswith(
                f"analysis {name}: error: "))
            self.assertNotIn("Traceback", failed.stderr)
            for text in texts:
                self.assertIn(text, failed.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_missing_and_bad_files(self):
        self.assert_fails(2, f"{self.path}: no such file")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("not HDF5")
        self.assert_fails(2, f"{self.path}: not a readable HDF5 file")

    def test_no_timeline(self):
        with write(self.path, steps=(1,), events_of_last=5) as file:
            file.swmr_mode = True
            self.assert_fails(2, f"{self.path}: holds no complete timeline of a step")
        with write(self.path) as file:
            del file["timeline"]
        self.assert_fails(2, f"{self.path}: holds no timeline")
        with h5py.File(self.path, "w") as file:  # of --dump-gradients, for example
            file["a.weight"] = [1.0]
        self.assert_fails(2, f"{self.path}: holds no timeline")

    def test_steps_and_ranks_that_are_not_there(self):
        write(self.path, steps=(1, 2, 30)).close()
        there = "there are those of steps 1, 2, 30"
        self.assert_fails(2, f"{self.path}: no timeline of step 7; {there}",
                          scripts=("timeline",), arguments=("--step", "7"))
        self.assert_fails(2, f"{self.path}: no rank 2; there are ranks 0 to 1",
                          scripts=("timeline",), arguments=("--ranks", "0,2"))
        for steps, text in (("7", "step 7"), ("1,3-29", "any of steps 3-29")):
            self.assert_fails(2, f"{self.path}: no timeline of {text}; {there}",
                              scripts=("trace",), arguments=("--steps", steps))
        self.assertEqual(hidup_timings.listed(range(10, 1000, 10)),
                         "10, 20, 30, 40, 50, 60, ..., 970, 980, 990")

    def test_usage(self):
        write(self.path).close()
        for name, *arguments in (("timeline", "--ranks", "0-1"),
                                 ("timeline", "--step", "last"),
                                 ("timeline", "-o", self.in_folder("x.pdf")),
                                 ("trace", "--steps", "1-")):
            self.assert_fails(2, arguments[-1], scripts=(name,), arguments=arguments)
        for name in SCRIPTS:
            self.assertEqual(script(name, "--help").returncode, 0)
            self.assert_fails(2, scripts=(name,), arguments=("-o", self.in_folder("none/x.png")))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
