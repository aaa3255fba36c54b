"""jobs/train.sbatch, submitted to the single-node Slurm of jobs/testbed."""

import os
import signal
import subprocess
import sys
import time
import unittest

import h5py
import numpy

import harness
from slurm import JOB, STATE, SlurmTest, daemons
from testbed import processes_in, script

sys.path.insert(0, str(harness.SOURCE / "analysis"))
import hidup_timings  # noqa: E402


class TrainingJobs(SlurmTest):

    def sbatch(self, *args, launcher):
        """Submits a job and returns its timing file; with --wait after the job's end."""
        result = subprocess.run(
            ["sbatch", "--parsable", *args[:-1], harness.SOURCE / "jobs" / "train.sbatch",
             "model.yaml", "cluster.yaml", "--strategy", "dp", "--set", args[-1]],
            cwd=self.folder, env={**self.environment, "LAUNCHER": launcher}, capture_output=True,
            text=True, timeout=JOB)
        job = result.stdout.strip()
        log = self.folder / f"tiny-{job}.log"
        self.assertEqual(result.returncode, 0,
                         result.stderr + (log.read_text() if log.exists() else ""))
        return self.folder / "out" / f"tiny-{job}.h5"

    def test_train(self):
        one = self.train(1)
        for launcher in ("srun", "mpirun"):
            with self.subTest(launcher=launcher):
                path = self.sbatch("--wait", f"train.steps={harness.TRAIN['steps']}", launcher=launcher)
                with h5py.File(path) as file:
                    self.assertEqual(file.attrs["world_size"], 2)
                    numpy.testing.assert_allclose(file["iterations/loss"][:], one.loss,
                                                  rtol=harness.STEP_TOLERANCE)
        _, namespace = daemons()
        before = processes_in("pid", {namespace})
        self.script("slurm-down.sh")
        self.assert_nothing_left(before)

    def test_a_job_that_fails(self):
        """The job script returns hidup's exit code."""
        for launcher in ("srun", "mpirun"):
            with self.subTest(launcher=launcher):
                with self.assertRaisesRegex(AssertionError, "model.hidden"):
                    self.sbatch("--wait", "model.hidden=-1", launcher=launcher)

    def test_wall_time_in_mid_run(self):
        """The job returns to the queue and resumes without a trace in the loss curve. Slurm's signal comes up
        to 30 s before the 20 s that are left."""
        jobs = {launcher: self.sbatch("--time=1", "--signal=B:USR1@20", "train.steps=1000000",
                                      launcher=launcher) for launcher in ("srun", "mpirun")}
        for first in jobs.values():
            self.wait_for_rows(first.with_stem(first.stem + "-2"), 20, timeout=2 * JOB)
        for first in jobs.values():
            job = first.stem.removeprefix("tiny-")
            subprocess.run(["scancel", job], env=self.environment, check=True, timeout=JOB)
            self.wait_until_gone(job)
        joined = {}
        for launcher, first in jobs.items():
            second = first.with_stem(first.stem + "-2")
            stopped = hidup_timings.read_attributes(second)["continued_at_step"]
            self.assertGreaterEqual(stopped, len(hidup_timings.read(first)))
            joined[launcher] = hidup_timings.read(second)["loss"].to_numpy()[:stopped + 20]
            self.assertEqual(len(joined[launcher]), stopped + 20)
        whole = self.train(2, steps=max(map(len, joined.values()))).loss
        for launcher, first in jobs.items():
            with self.subTest(launcher=launcher):
                found = joined[launcher]
                numpy.testing.assert_allclose(found, whole[:len(found)], rtol=harness.STEP_TOLERANCE)
                log = (self.folder / f"{first.stem}.log").read_text()
                self.assertEqual(log.count("goes back to the queue"), 1, log)

    def wait_until_gone(self, job):
        deadline = time.monotonic() + JOB
        while subprocess.run(["squeue", "--noheader", "--jobs", job], env=self.environment,
                             capture_output=True, timeout=JOB).stdout:
            self.assertLess(time.monotonic(), deadline, f"job {job} does not end")
            time.sleep(0.1)

    def test_down_ends_a_job(self):
        path = self.sbatch("train.steps=1000000", launcher="srun")
        self.wait_for_rows(path, 3)
        pids, namespace = daemons()
        self.assertGreaterEqual(pids.keys(), {"munged", "slurmctld", "slurmd"})
        before = processes_in("pid", {namespace})
        self.assertTrue(any(b"hidup\0train\0" in line for line in before.values()), before)
        refused = script("slurm-up.sh")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("up already", refused.stderr)
        self.script("slurm-down.sh")
        self.assert_nothing_left(before)
        self.script("slurm-down.sh")  # a second time does no harm

    def test_leftovers_of_a_crash(self):
        pids, namespace = daemons()
        first = processes_in("pid", {namespace})
        os.kill(pids["slurmctld"], signal.SIGKILL)
        self.wait_until_ended(pids["slurmd"])
        self.script("slurm-up.sh")
        self.assert_ended(first)
        _, namespace = daemons()
        second = processes_in("pid", {namespace})
        (STATE / "ready").unlink()  # as after a kill of slurm-up.sh
        self.script("slurm-up.sh")
        self.assert_ended(second)

    def wait_until_ended(self, pid):
        deadline = time.monotonic() + harness.SOON
        while harness.alive(pid):
            self.assertLess(time.monotonic(), deadline, "the other daemons do not end")
            time.sleep(0.05)

    def wait_for_rows(self, path, rows, timeout=JOB):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if path.exists() and len(harness.losses(path)) >= rows:
                return
            time.sleep(0.1)
        self.fail(f"no {rows} steps in {path} after {timeout} s")

    def assert_nothing_left(self, before):
        self.assertFalse(STATE.exists())
        self.assert_ended(before)

    def assert_ended(self, processes):
        self.assertEqual([line for pid, line in processes.items() if harness.alive(pid)], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
