"""Emulated runs with a rank that is lost, stops or is told to stop."""

import os
import signal
import unittest

import harness
from emulation_test import EmulatedRun

COMMUNICATION, STOPPED = 5, 7
FOR_EVER = "train.steps=1000000"


class Failures(EmulatedRun):

    def launch(self, ranks=3):
        launch = harness.Launch(ranks, self.train_args(
            "run.h5", FOR_EVER, "cluster.comm.heartbeat_timeout=3s"))
        self.addCleanup(launch.__exit__)
        launch.wait_for_rows(self.folder / "run.h5", 3)
        return launch

    def test_a_lost_rank_ends_all(self):
        launch = self.launch()
        os.kill(launch.ranks()[1], signal.SIGKILL)
        self.assertNotEqual(launch.wait(harness.SOON).code, 0)

    def test_a_rank_that_stands_still_is_named(self):
        launch = self.launch()
        os.kill(launch.ranks()[1], signal.SIGSTOP)
        result = launch.wait(harness.SOON)
        self.assert_one_error(result, COMMUNICATION, "rank 1 gave no sign of life")

    def test_a_signal_stops_it_behind_a_step(self):
        launch = self.launch()
        launch.signal(signal.SIGUSR1)
        self.assertEqual(launch.wait(harness.SOON).code, STOPPED)
        done = len(harness.losses(self.folder / "run.h5"))
        result = harness.run(3, self.train_args("run.h5", ["--resume", "auto"],
                                                f"train.steps={done + 2}"))
        self.assert_done(result)
        self.assertEqual(len(harness.losses(self.folder / "run-2.h5")), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
