"""jobs/experiments at small size: every list as a job of the test bed's Slurm, and on its hosts."""

import contextlib
import fnmatch
import io
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
           "noise": "noise", "searchtime": "searchtime"}  # other lists: systems
# Starting ranks takes a second, so of measured lists a job runs a sample; other lists run completely.
SAMPLE = {"breakdown": "*-hidup", "halved-batch": "*-[28]", "interference": "bert-sgmoe-*",
          "noise": "*-1-both", "one-machine": "*-d*", "scaling": "*-2-*"}


def runs_of(name, place, only="*"):
    """Returns the runs of a list at small size that make sense in that place."""
    _, runs = run_list.read(name, "small")
    return [run for run in runs if place in run.places and fnmatch.fnmatch(run.name, only)]


class ListTest:
    """Checks of a list that has run."""

    def assert_runs(self, runs, place, folder):
        """Checks that every run left its result."""
        executor = execute.Executor(place, folder, harness.BINARY)
        for run in runs:
            self.assertTrue(executor.is_done(run), run.name)
            if executor.result_of(run).suffix == ".h5":
                with h5py.File(executor.result_of(run)) as file:
                    self.assertEqual(file.attrs["world_size"], run.ranks)
                    if place == "testbed":
                        self.assertEqual(len(set(file.attrs["hostnames"])), run.ranks)

    def assert_drawn(self, name, folder):
        figure = FIGURES.get(name, "systems")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(analysis.main([figure, str(folder)]), 0, printed.getvalue())
        self.assertGreater((folder / f"{figure}.png").stat().st_size, 3000)


class OnSlurm(ListTest, slurm.SlurmTest):

    def test_every_list(self):
        """Lists with rates of links are predicted in the job: the cluster's links cannot be set."""
        for name in run_list.experiments():
            with self.subTest(name=name):
                place = "slurm" if runs_of(name, "slurm") else "predict"
                only = SAMPLE.get(name, "*")
                self.submit(name, "--only", only, *(["--predict"] if place == "predict" else []))
                runs = runs_of(name, place, only)
                self.assertTrue(runs)
                self.assert_runs(runs, place, self.folder / name)
                self.assert_drawn(name, self.folder / name)

    def test_the_second_job_does_what_is_left(self):
        """The second job does the remaining runs, with either launcher."""
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
        """Submits a job with these runs of a list at small size and returns its log."""
        log = self.folder / f"{name}.log"
        result = subprocess.run(
            ["sbatch", "--wait", f"--output={log}", f"--chdir={harness.SOURCE}",
             "jobs/experiments/run.sbatch", name, "--size", "small", *more,
             "--out", self.folder / name],
            cwd=harness.SOURCE, capture_output=True, text=True, timeout=2 * slurm.JOB,
            env={**self.environment, "LAUNCHER": launcher, "HIDUP": str(harness.BINARY)})
        text = log.read_text() if log.exists() else ""
        self.assertEqual(result.returncode, 0, result.stderr + text)
        return text


class OnHosts(ListTest, testbed.TestbedTest):

    def setUp(self):
        super().setUp()
        self.script("up.sh")

    def test_every_list(self):
        """HiDup and the named strategies run at all rates of links, other lists with one run each."""
        for name in run_list.experiments():
            with self.subTest(name=name):
                runs = runs_of(name, "testbed")
                if runs:
                    only = "*-[eh]*" if runs[-1].rate else runs[-1].name
                    self.start(name, "--only", only)
                    self.assert_runs(runs_of(name, "testbed", only), "testbed", self.folder / name)
        self.assert_rate_counts(self.folder / "bandwidth-hosts")
        self.down()

    def assert_rate_counts(self, folder):
        """Checks that each run's rate is set: a step sends 1.8 MB, half of it to the other host, which takes
        longer at 0.2 Gbit/s than its bursts."""
        with h5py.File(folder / "bert-sgmoe-0.2-ep-fastmoe.h5") as file:
            seconds = numpy.median(file["ranks/comm_s"][:])
        self.assertGreater(seconds, (0.9e6 - 2 * testbed.BURST) * 8 / 0.2e9)

    def start(self, name, *more):
        result = harness.run(0, [EXPERIMENTS / "run.py", name, "--size", "small", "--testbed",
                                 "--out", self.folder / name, *more],
                             program=sys.executable, env={"HIDUP": str(harness.BINARY)})
        self.assertEqual(result.code, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
