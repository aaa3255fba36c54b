#!/usr/bin/python3
"""The timeline of a run of HIDUP_BINARY, read by analysis.

    timeline_of_a_run_test.py ANALYSIS_FOLDER
"""

import os
import subprocess
import sys
import unittest

import numpy

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(sys.argv[1]))
from analysis import hidup_timings  # noqa: E402
from analysis.busy import busy_times  # noqa: E402
from sample_timeline import FolderTest  # noqa: E402


class Run(FolderTest):
    def run_of(self, strategy, *settings):
        """Trains for four steps and returns read_spans()."""
        decks = os.path.join(SOURCE, "inputs")
        arguments = [os.environ["HIDUP_BINARY"], "train", os.path.join(decks, "models/tiny.yaml"),
                     "--cluster", os.path.join(decks, "clusters/laptop.yaml"),
                     "--strategy", strategy, "--out", self.path]
        for setting in ("train.steps=4", "train.warmup_steps=1", "train.timeline_every=4", *settings):
            arguments += ["--set", setting]
        command = 'source "$0" && exec timeout 100 mpirun -n 2 "$@"'
        environment = os.path.join(SOURCE, "jobs", "environment.sh")
        subprocess.run(["bash", "-c", command, environment, *arguments], check=True,
                       stdout=subprocess.DEVNULL)
        self.assertEqual(hidup_timings.timeline_steps(self.path), [1, 2, 3, 4])
        return hidup_timings.read_spans(self.path)

    def assert_busy_times(self, spans):
        frame = hidup_timings.read(self.path)
        for at, step in enumerate(frame.index):
            busy = busy_times(hidup_timings.read_timeline(self.path, step))
            for name, values in spans.items():
                of_events = "pipeline_idle_s" if name == "idle_s" else name
                self.assertGreater(values[at].min(), 0, name)
                numpy.testing.assert_allclose(busy[of_events], values[at], rtol=1e-6, atol=1e-9,
                                              err_msg=name)
            # Rank 0's clock gives the step's time.
            self.assertLessEqual(busy["wall_s"][0], frame["wall_s"][step])

    def test_busy_times_are_those_of_the_run(self):
        spans = self.run_of("ep-deepspeed")
        self.assertEqual(list(spans), ["compute_s", "comm_s", "exposed_comm_s"])
        self.assert_busy_times(spans)

    def test_busy_times_of_a_pipeline(self):
        spans = self.run_of("pipeline", "train.accumulate=4", "cluster.profile=none")
        self.assertEqual(list(spans), ["compute_s", "comm_s", "exposed_comm_s", "idle_s"])
        self.assert_busy_times(spans)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
