#!/usr/bin/python3
"""Timelines of pipelines that analysis reads, measures, draws and exports.

    timeline_of_pipelines_test.py ANALYSIS_FOLDER [TEST...]
"""

import json
import os
import sys
import unittest

import numpy

ANALYSIS = sys.argv[1]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(ANALYSIS))
from analysis import hidup_timings  # noqa: E402
from analysis.busy import busy_times  # noqa: E402
from analysis.commands import timeline  # noqa: E402
from sample_timeline import (STAGE_BUSY, STAGE_TIMES, STAGES, STAGES_PREDICTED,  # noqa: E402
                             FolderTest, extents_of, write_stages)
from scripts import script  # noqa: E402


class Pipelines(FolderTest):
    """Ranks of two stages, which skip each other's instructions and send messages on streams of their own."""

    def read(self, **options):
        write_stages(self.path, **options).close()
        return hidup_timings.read_timeline(self.path)

    def test_ranks_have_only_instructions_that_they_run(self):
        events = self.read()
        for rank, times in enumerate(STAGE_TIMES):
            of_rank = events[events["rank"] == rank].sort_values("instruction")
            self.assertEqual(list(of_rank["instruction"]), list(times))
            self.assertEqual(list(of_rank["name"]), [STAGES["name"][i] for i in times])

    def test_steps_that_are_complete(self):
        for steps, written, expected in (((1,), 12, [1]), ((1, 2, 3), 12, [1, 2, 3]),
                                         ((1, 2, 3), 11, [1, 2]), ((1, 2), 0, [1])):
            self.read(steps=steps, events_of_last=written)
            self.assertEqual(hidup_timings.timeline_steps(self.path), expected)
        with write_stages(self.path, steps=(1, 2, 3), events_of_last=11) as file:
            file.swmr_mode = True
            self.assertEqual(hidup_timings.timeline_steps(self.path), [1, 2])

    def test_the_only_step_may_still_be_written(self):
        with write_stages(self.path, steps=(1,)) as file:
            file.swmr_mode = True
            with self.assertRaisesRegex(KeyError, "holds no complete timeline of a step"):
                hidup_timings.timeline_steps(self.path)

    def test_busy_times(self):
        busy = busy_times(self.read())
        self.assertEqual(list(busy.columns), list(STAGE_BUSY))
        for name, values in STAGE_BUSY.items():
            numpy.testing.assert_allclose(busy[name], values, rtol=1e-8, atol=1e-10, err_msg=name)

    def test_flops_and_bytes_of_instructions_that_rank_0_skips(self):
        events = self.read().set_index(["rank", "instruction"])
        for event, flops, size in (((0, 0), 2_000_000, 100), ((1, 2), 4_000_000, 1000),
                                   ((1, 3), 6_000_000, 2000), ((1, 4), 0, 200)):
            self.assertEqual(tuple(events.loc[event, ["flops", "bytes"]]), (flops, size))

    def panels(self):
        write_stages(self.path).close()
        return timeline.panels_and_heading(self.path, None, None)[0]

    def test_a_prediction_for_each_stage(self):
        panels = self.panels()
        self.assertEqual([panel.label for panel in panels],
                         ["predicted\nas rank 0", "predicted\nas rank 1", "rank 0", "rank 1"])
        for panel, times in zip(panels, STAGE_TIMES):
            self.assertEqual(list(panel.events["instruction"]), list(times))
            numpy.testing.assert_allclose(panel.events[["start", "end"]],
                                          [STAGES_PREDICTED[i] for i in times], atol=1e-9)
        write_stages(self.path).close()
        alone = timeline.panels_and_heading(self.path, None, [1])[0]
        self.assertEqual([panel.label for panel in alone], ["predicted\nas rank 1", "rank 1"])

    def test_the_picture_has_a_lane_for_each_stream(self):
        panels = self.panels()
        figure = timeline.draw(panels, "the heading")
        self.addCleanup(timeline.plt.close, figure)
        lanes = timeline.lanes_of(panels)
        self.assertEqual(list(lanes), ["compute", "comm", "down", "up"])
        for axes, panel in zip(figure.axes[2:], panels[2:]):
            self.assertEqual([label.get_text() for label in axes.get_yticklabels()],
                             ["compute", "communication", "to later stages", "to earlier stages"])
            bars = [bars for bars in axes.collections if not bars.get_hatch()]
            drawn = [box for box in extents_of(bars) if box[3] <= sum(timeline.COMPUTE)]
            self.assertEqual(drawn, sorted(
                (round(event.start, 6), round(event.end, 6), lanes[event.stream][0],
                 sum(lanes[event.stream])) for event in panel.events.itertuples()))
            self.assertLessEqual(axes.get_ylim()[0], lanes["up"][0])
        self.assertIn("pipeline idle      4.00 ms\n", figure.axes[2].texts[-1].get_text())

    def test_lanes_of_one_direction(self):
        panels = self.panels()
        ahead = [panel._replace(events=panel.events[panel.events["stream"] != "down"])
                 for panel in panels]
        self.assertEqual(list(timeline.lanes_of(ahead)), ["compute", "comm", "up"])
        self.assertEqual(timeline.lanes_of(ahead)["up"], timeline.lanes_of(panels)["down"])

    def test_the_trace_has_a_thread_for_each_stream(self):
        write_stages(self.path).close()
        done = script("trace", self.path, "--steps", "2")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(done.stdout.rstrip("\n"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        threads = {e["tid"]: e["args"]["name"] for e in events
                   if e["name"] == "thread_name" and e["pid"] == 1}
        self.assertEqual(threads, {0: "compute", 1: "communication", 2: "to later stages",
                                   3: "to earlier stages"})
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(names, {-2: "predicted as rank 0", -1: "predicted as rank 1",
                                 0: "rank 0 (a)", 1: "rank 1 (b)"})
        for pid, times in zip((-2, -1, 0, 1), STAGE_TIMES + STAGE_TIMES):
            found = {e["args"]["instruction"]: e["tid"] for e in events
                     if e["ph"] == "X" and e["pid"] == pid}
            self.assertEqual(found, {i: ("compute", "comm", "down", "up").index(STAGES["stream"][i])
                                     for i in times})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
