"""jobs/experiments at small size: every list as a job of the test bed's Slurm, and on its hosts."""

import contextlib
import io
import os
import subprocess
import sys
import unittest

import h5py
import numpy

import harness
import slurm
import testbed

EXPERIMENTS = harness.SOURCE / "jobs" / "experiments"
sys.dont_write_bytecode = True
sys.path[:0] = [str(EXPERIMENTS), str(harness.SOURCE)]
import execute  # noqa: E402
import run_list  # noqa: E402
from analysis import __main__ as analysis  # noqa: E402

FIGURES = {"scaling": "scaling", "bandwidth": "bandwidth", "bandwidth-hosts": "bandwidth",
           "noise": "noise", "searchtime": "searchtime"}  # the others: systems


def place_of(name, place):
    """Where the runs of a list are when it is started there: place, or no list needs it."""
    _, runs = run_list.read(name, "small")
    return place if any(place in run.places for run in runs) else None


class ListTest:
    """What is asked of a list that has run."""

    def assert_all_done(self, name, place, folder):
        """Every run left its result, and analysis draws them."""
        _, runs = run_list.read(name, "small")
        executor = execute.Executor(place, folder, harness.BINARY)
        runs = [run for run in runs if place in run.places]
        self.assertEqual([run.name for run in runs if not executor.is_done(run)], [])
        measured = [run for run in runs if executor.result_of(run).suffix == ".h5"]
        for run in measured:
            with h5py.File(executor.result_of(run)) as file:
                self.assertEqual(file.attrs["world_size"], run.ranks)
                if place == "testbed":
                    self.assertEqual(len(set(file.attrs["hostnames"])), run.ranks)
        figure = FIGURES.get(name, "systems")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(analysis.main([figure, str(folder)]), 0, printed.getvalue())
        self.assertGreater((folder / f"{figure}.png").stat().st_size, 3000)


class OnSlurm(ListTest, slurm.SlurmTest):

    def test_every_list(self):
        """Lists with rates of links are predicted in the job: nobody can set a cluster's links."""
        for name in run_list.experiments():
            with self.subTest(name=name):
                place = place_of(name, "slurm") or "predict"
                self.submit(name, *(["--predict"] if place == "predict" else []))
                self.assert_all_done(name, place, self.folder / name)

    def test_the_second_job_does_what_is_left(self):
        """With either launcher."""
        first = self.submit("interference", "--only", "bert-sgmoe-duplex-only-on")
        self.assertEqual(first.count("  done\n"), 0, first)
        second = self.submit("interference", "--only", "bert-sgmoe-duplex-only-*",
                             launcher="mpirun")
        self.assertEqual(second.count("  done\n"), 1, second)
        for name in ("bert-sgmoe-duplex-only-on", "bert-sgmoe-duplex-only-off"):
            with h5py.File(self.folder / "interference" / f"{name}.h5") as file:
                self.assertEqual(file.attrs["world_size"], 2)
                self.assertIn('"slurm"', file.attrs["experiment_run"])

    def submit(self, name, *more, launcher="srun --mpi=pmix"):
        """The log of a job that does these runs of a list at small size."""
        log = self.folder / f"{name}.log"
        result = subprocess.run(
            ["sbatch", "--wait", f"--output={log}", f"--chdir={harness.SOURCE}",
             "jobs/experiments/run.sbatch", name, "--size", "small", *more,
             "--out", self.folder / name],
            cwd=harness.SOURCE, capture_output=True, text=True, timeout=2 * slurm.JOB,
            env={**self.environment, "LAUNCHER": launcher, "PYTHON": sys.executable,
                 "HIDUP": str(harness.BINARY)})
        text = log.read_text() if log.exists() else ""
        self.assertEqual(result.returncode, 0, result.stderr + text)
        return text


class OnHosts(ListTest, testbed.TestbedTest):

    def setUp(self):
        super().setUp()
        self.script("up.sh")

    def test_every_list(self):
        for name in run_list.experiments():
            with self.subTest(name=name):
                if place_of(name, "testbed"):
                    self.start(name, self.folder / name)
                    self.assert_all_done(name, "testbed", self.folder / name)
        self.down()

    def test_rates_of_a_list(self):
        """Each run's rate is set: a step sends 1.8 MB, half of it to the other host, which at 0.2
        Gbit/s takes longer than its bursts."""
        out = self.folder / "out"
        self.start("bandwidth-hosts", out, "--only", "*-ep-fastmoe", "--set", "train.steps=6")
        self.assertIn("rate=200mbit\n", (testbed.STATE / "settings").read_text())
        for rate in (2, 0.2):
            with h5py.File(out / f"bert-sgmoe-{rate}-ep-fastmoe.h5") as file:
                self.assertEqual(len(set(file.attrs["hostnames"])), 2)
                seconds = numpy.median(file["ranks/comm_s"][:])
        self.assertGreater(seconds, (0.9e6 - 2 * testbed.BURST) * 8 / 0.2e9)
        self.down()

    def start(self, name, folder, *more):
        result = harness.run(0, [EXPERIMENTS / "run.py", name, "--size", "small", "--testbed",
                                 "--out", folder, *more],
                             program=sys.executable, env={"HIDUP": str(harness.BINARY)})
        self.assert_done(result)


if __name__ == "__main__":
    unittest.main(verbosity=2)
