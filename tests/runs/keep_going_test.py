"""jobs/keep-going.sh: a run continues with the remaining hosts, on the test bed."""

import signal
import subprocess
import sys
import time
import unittest

import numpy

import harness
from testbed import TESTBED, TestbedTest

sys.path.insert(0, str(harness.SOURCE / "analysis"))
import hidup_timings  # noqa: E402


class GoingOnWithWhatIsLeft(TestbedTest):
    """Four hosts have a rank each. Messages take a tenth of a second per step."""

    STEPS = 40

    def test_a_host_that_is_lost(self):
        for lost in ("its processes", "its link"):
            with self.subTest(lost=lost):
                self.go_on_without_a_host(lost)

    def go_on_without_a_host(self, lost):
        self.script("up.sh", "--hosts", 4, "--rate", "10mbit")
        name = lost.replace(" ", "-")
        first, second = self.folder / f"{name}.h5", self.folder / f"{name}-2.h5"
        args = self.train_args(first.name, f"train.steps={self.STEPS}",
                               "train.checkpoint.every_steps=5")
        with self.keep_going(4, args) as launch:
            launch.wait_for_rows(first, 12)
            lost_at = time.monotonic()
            if lost == "its processes":
                subprocess.run(["kill", "-KILL", *self.pids("hidup3")], check=True)
            subprocess.run(["ip", "-n", "hidup3", "link", "set", "eth0", "down"], check=True)
            launch.wait_for_rows(second, 1)
            print(f"{lost} lost: the next step after {time.monotonic() - lost_at:.1f} s",
                  file=sys.stderr)
            result = launch.wait(60)
        self.assert_done(result)
        self.assertIn("keep-going: hidup3 does not answer", result.stderr)
        self.assertIn("starts again with 3 rank(s) on hidup0 hidup1 hidup2", result.stderr)
        self.assertEqual([hidup_timings.read_attributes(path)["world_size"]
                          for path in (first, second)], [4, 3])
        self.assertGreaterEqual(hidup_timings.read_attributes(second)["continued_at_step"], 10)
        joined = hidup_timings.read(second)["loss"].to_numpy()
        whole = self.train(1, steps=self.STEPS)
        numpy.testing.assert_allclose(joined, whole.loss, rtol=harness.STEP_TOLERANCE)
        self.down()

    def test_what_does_not_start_again(self):
        self.script("up.sh", "--hosts", 2)
        wrong = self.keep_going_once(2, "model.hidden=-1")
        self.assertEqual(wrong.code, 2, wrong.stderr)
        self.assertNotIn("keep-going", wrong.stderr)
        # Without checkpoints every start is the first one.
        subprocess.run(["ip", "-n", "hidup1", "link", "set", "eth0", "down"], check=True)
        script_that_fails = self.folder / "fails.sh"
        script_that_fails.write_text("#!/bin/sh\nexit 5\n")
        script_that_fails.chmod(0o755)
        failing = self.keep_going_once(2, env={"HIDUP": str(script_that_fails), "LIMIT": "2"})
        self.assertEqual(failing.code, 5, failing.stderr)
        self.assertEqual(failing.stderr.count("starts again"), 2, failing.stderr)
        self.assertIn("3 starts failed without a newer checkpoint than that of step 0",
                      failing.stderr)
        self.down()

    def test_a_stop(self):
        self.script("up.sh", "--hosts", 2)
        out = self.folder / "run.h5"
        with self.keep_going(2, self.train_args(out.name, "train.steps=1000000")) as launch:
            launch.wait_for_rows(out, 3)
            launch.signal(signal.SIGTERM)
            result = launch.wait(harness.SOON)
        self.assertEqual(result.code, 7, result.stderr)
        self.assertNotIn("starts again", result.stderr)
        self.assertEqual(len(list(out.with_suffix(".ckpt").iterdir())), 1)
        self.down()

    def keep_going(self, ranks, args, env=None):
        return harness.Launch(0, ["-n", ranks, "--keep-going", *args[1:]],
                              program=TESTBED / "run.sh",
                              env={"HIDUP": str(harness.BINARY), **(env or {})})

    def keep_going_once(self, ranks, *more, env=None):
        with self.keep_going(ranks, self.train_args("once.h5", *more), env) as launch:
            return launch.wait(60)

    @staticmethod
    def pids(namespace):
        return subprocess.run(["ip", "netns", "pids", namespace], check=True, capture_output=True,
                              text=True).stdout.split()


if __name__ == "__main__":
    unittest.main(verbosity=2)
