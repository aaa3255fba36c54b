"""Runs hidup for the whole-run tests: launches, decks, and what the runs left.

CTest sets HIDUP_BINARY and HIDUP_SOURCE. What Open MPI needs comes from
jobs/environment.sh, so that the tests run as the quickstart does.
"""

import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import typing
import unittest

import h5py
import numpy

BINARY = os.environ["HIDUP_BINARY"]
SOURCE = pathlib.Path(os.environ["HIDUP_SOURCE"])

# A launcher's marks would make a run without mpirun look like a rank of some job.
LAUNCHER_MARKS = ("OMPI_COMM_", "PMIX_", "SLURM_")

# Small, and nothing divides: neither the batch nor any tensor by 2, 3 or 4 ranks.
MODEL = dict(family="bert", layers=2, hidden=24, heads=3, ffn=40, sequence=17, vocab="auto",
             dropout=0.1)
TRAIN = dict(batch=5, steps=20, seed=1, lr=3e-3, optimizer="adamw", clip_norm=1.0)


class Result(typing.NamedTuple):
    code: int  # exit code; negative: ended by that signal
    stdout: str
    stderr: str
    seconds: float

    def error_lines(self):
        return [line for line in self.stderr.splitlines() if line.startswith("hidup: error")]


class Launch:
    """One started run. Ends, with all its ranks, when the with block does."""

    def __init__(self, ranks, args, env=None, cwd=None):
        """ranks: 0 runs the program by itself, without mpirun."""
        launcher = ["mpirun", "-n", str(ranks)] if ranks else []
        script = 'source "$0" && exec "$@"'  # exec: the process is mpirun itself
        command = ["bash", "-c", script, str(SOURCE / "jobs" / "environment.sh"),
                   *launcher, BINARY, *map(str, args)]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_MARKS)}
        # Files, not pipes: a rank that prints a lot must not wait for us.
        self._stdout = tempfile.TemporaryFile("w+")
        self._stderr = tempfile.TemporaryFile("w+")
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._stdout, stderr=self._stderr, cwd=cwd,
            env={**inherited, **(env or {})}, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self._process.wait()
        self._stdout.close()
        self._stderr.close()

    def running(self):
        return self._process.poll() is None

    def ranks(self):
        """{rank: process id} of the ranks that live."""
        found = {}
        for pid in children(self._process.pid):
            try:
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:  # ended meanwhile
                continue
            for entry in environment:
                if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                    found[int(entry.split(b"=")[1])] = pid
        return found

    def kill(self):
        """SIGKILL to mpirun and to all ranks at once; mpirun gives each a process group."""
        for pid in [self._process.pid, *children(self._process.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def wait(self, timeout):
        """The Result; after timeout seconds everything is killed and the test fails."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
            raise AssertionError(f"still running after {timeout} s:\n{self._read(self._stderr)}")
        return Result(code, self._read(self._stdout), self._read(self._stderr),
                      time.monotonic() - self._started)

    def wait_for_rows(self, path, rows, timeout=60):
        """Waits until a reader of the timing file sees that many steps; says how many."""
        deadline = time.monotonic() + timeout
        seen = 0
        while seen < rows:
            if not self.running() or time.monotonic() > deadline:
                raise AssertionError(f"{seen} of {rows} steps in {path}:\n"
                                     f"{self._read(self._stderr)}")
            time.sleep(0.1)
            seen = len(losses(path)) if path.exists() else 0
        return seen

    @staticmethod
    def _read(file):
        file.seek(0)
        return file.read()


def children(parent):
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        if int(after_name[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def run(ranks, args, timeout=120, env=None, cwd=None):
    with Launch(ranks, args, env, cwd) as launch:
        return launch.wait(timeout)


def losses(path):
    """The losses of a timing file, also while it is written. Empty until it is readable."""
    try:
        with h5py.File(path, "r", swmr=True) as file:
            return file["iterations/loss"][:]
    except (OSError, KeyError):
        return numpy.empty(0)


def write_section(name, values):
    return f"{name}:\n" + "".join(f"  {key}: {value}\n" for key, value in values.items())


class RunTest(unittest.TestCase):
    """A test with a folder of its own, and the small decks in it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hidup-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        words = random.Random(7).choices(["the", "rank", "waits", "for", "its", "sum;", "\n"], k=900)
        (self.folder / "text.txt").write_text(" ".join(words))
        (self.folder / "model.yaml").write_text(
            write_section("model", MODEL) +
            write_section("data", dict(kind="text", path="text.txt", tokenizer="bytes")) +
            write_section("train", TRAIN))
        (self.folder / "cluster.yaml").write_text(
            "cluster:\n"
            "  device: {kind: cpu, threads: 1}\n"
            "  mesh: [{name: ranks, size: auto}]\n"
            "  comm: {heartbeat_timeout: 3s}\n")

    def train_args(self, out, *more):
        """Arguments of hidup train for the small decks; more: for example train.steps=5."""
        args = ["train", self.folder / "model.yaml", "--cluster", self.folder / "cluster.yaml",
                "--out", self.folder / out]
        for setting in more:
            args += setting if isinstance(setting, list) else ["--set", setting]
        return args

    def assert_done(self, result):
        self.assertEqual(result.code, 0, result.stderr)
