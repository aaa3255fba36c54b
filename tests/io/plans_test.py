#!/usr/bin/python3
"""Pictures and traces of what hidup prints before a run: timelines and pipeline schedules.

    plans_test.py ANALYSIS_FOLDER [TEST...]
"""

import json
import os
import sys
import unittest

ANALYSIS = sys.argv[1]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(ANALYSIS))
from analysis.commands import schedule, timeline  # noqa: E402
from sample_timeline import (BUSY, PROGRAM, SECOND, STAGES, STAGES_PREDICTED, TIMES,  # noqa: E402
                             FolderTest)
from scripts import script  # noqa: E402

SCRIPTS = ("timeline", "trace")


class Plans(FolderTest):
    """Pictures and traces of the output of `hidup explain --json`."""

    def write_plan(self, plan, name="plan.json"):
        self.path = self.in_folder(name)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(plan if isinstance(plan, str) else json.dumps(plan))

    def write_sample(self, name="plan.json", program=PROGRAM, times=TIMES[0]):
        columns = ("name", "stream", "microbatch", "phase", "collective")
        timeline = [{**{column: program[column][i] for column in columns},
                     "start_s": SECOND * start, "end_s": SECOND * end}
                    for i, (start, end) in enumerate(times)]
        self.write_plan({"model": "tiny", "strategy": "search", "ranks": 4, "timeline": timeline},
                        name)

    def test_the_predicted_timeline_is_drawn(self):
        self.write_sample()
        (panel,), heading = timeline.panels_and_heading(self.path, None, None)
        self.assertEqual(heading, "tiny, search on 4 ranks: a step, predicted")
        self.assertEqual(panel.label, "predicted")
        for name, values in BUSY.items():
            self.assertAlmostEqual(panel.busy[name], values[0], places=9, msg=name)
        result = script("timeline", self.path)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(os.path.getsize(result.stdout.splitlines()[0]), 10_000)

    def test_the_predicted_timeline_is_exported(self):
        self.write_sample()
        result = script("trace", self.path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, self.in_folder("plan-trace.json") + "\n")
        with open(self.in_folder("plan-trace.json"), encoding="utf-8") as file:
            trace = json.load(file)
        self.assertEqual(trace["otherData"], {"model": "tiny", "strategy": "search"})
        names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"]
                 if e["name"] == "process_name"}
        self.assertEqual(names, {-1: "predicted"})
        events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
        self.assertEqual([(e["ts"], e["dur"]) for e in events],
                         [(1000 * start, 1000 * (end - start)) for start, end in TIMES[0]])
        self.assertEqual(events[2], {
            "ph": "X", "name": "layers.0.ffn.up.all_to_all", "cat": "forward", "pid": -1, "tid": 1,
            "ts": 12_000, "dur": 3000,
            "args": {"instruction": 2, "microbatch": 1, "collective": "all_to_all"}})

    def test_a_plan_of_a_pipeline(self):
        self.write_sample(program=STAGES, times=STAGES_PREDICTED)
        panels, _ = timeline.panels_and_heading(self.path, None, None)
        self.assertEqual([panel.label for panel in panels], ["predicted,\nall stages"])
        self.assertEqual(list(timeline.lanes_of(panels)), ["compute", "comm", "down", "up"])
        result = script("timeline", self.path)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = script("trace", self.path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        with open(self.in_folder("plan-trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.assertEqual(threads, {0: "compute", 1: "communication", 2: "to later stages",
                                   3: "to earlier stages"})
        self.assertEqual([e["tid"] for e in events if e["ph"] == "X"], [0, 2, 0, 0, 3, 0, 1, 0])

    def test_a_plan_is_known_by_its_content(self):
        self.write_sample("plan")
        for name in SCRIPTS:
            result = script(name, self.path)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_plan_has_no_numbered_steps(self):
        self.write_sample()
        result = script("trace", self.path, "--steps", "1")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--steps: a plan has one step", result.stderr)

    def test_files_that_are_not_plans(self):
        for text in ("", "{", "[]", "{}", '{"timeline": 3}', '{"timeline": [{"name": "x"}]}'):
            self.write_plan(text)
            for name in SCRIPTS:
                result = script(name, self.path)
                self.assertEqual((result.returncode, result.stdout), (2, ""), text)
                self.assertIn(f"{self.path}: not what hidup explain --json prints", result.stderr)
                self.assertEqual(os.listdir(self.folder), ["plan.json"])


class Schedules(FolderTest):
    """Pictures of the output of `hidup schedule --json`."""

    def write(self, text):
        self.path = self.in_folder("plan.json")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_a_schedule_is_drawn(self):
        slots = [[{"tasks": ["0F0"], "start_s": 0.0, "end_s": 1.0},
                  {"tasks": ["0F1", "1I0"], "start_s": 1.0, "end_s": 4.0},
                  {"tasks": ["1W0"], "start_s": 5.0, "end_s": 6.0}]]
        self.write(json.dumps({"slots": slots}))
        lanes = schedule.read_lanes(self.path)
        self.assertEqual(lanes[0][1], ([(0, "F", 1), (1, "I", 0)], 1.0, 4.0))
        result = script("schedule", self.path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout.splitlines()[0], self.in_folder("plan-schedule.png"))
        self.assertGreater(os.path.getsize(result.stdout.splitlines()[0]), 10_000)

    def test_files_that_are_not_schedules(self):
        for text in ("", "0F0,0B0", "[]", "{}"):
            self.write(text)
            result = script("schedule", self.path)
            self.assertEqual((result.returncode, result.stdout), (2, ""), text)
            self.assertIn(f"{self.path}: not what hidup schedule --json prints", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
