"""Runs hidup for the whole-run tests: launches, decks, and the runs' results.

CTest sets HIDUP_BINARY; by hand it is build/hidup. HIDUP_DEVICE is the kind of device that the
binary was built for, by default cpu. jobs/environment.sh sets Open MPI's variables, so that the tests
run as the quickstart does.
"""

import ctypes
import functools
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

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("HIDUP_BINARY", SOURCE / "build" / "hidup")
DEVICE = os.environ.get("HIDUP_DEVICE", "cpu")

CACHE = pathlib.Path(BINARY).parent / "cache"  # where runs keep their profiles

# With a launcher's variables a run without mpirun would look like a rank of some job.
LAUNCHER_MARKS = ("OMPI_COMM_", "PMIX_", "SLURM_")

# The model is small, and neither the batch nor most tensors divide by the ranks. The gradients' norm falls
# from 1.5 to 1.2: some steps are clipped, some are not.
MODEL = dict(family="bert", layers=2, hidden=24, heads=3, ffn=40, sequence=17, vocab="auto",
             dropout=0.1)
TRAIN = dict(batch=5, steps=20, seed=1, lr=3e-3, optimizer="adamw",
             weight_decay=0.01, clip_norm=1.4)

STEP_TOLERANCE = 2e-5  # of equal runs: relative, loss and gradient norm of every step
GRADIENT_TOLERANCE = 1e-4  # largest difference over largest value, every tensor

SOON = 60  # seconds: a failed run ends within them, even on a busy machine

PR_SET_PDEATHSIG = 1  # linux/prctl.h


@functools.cache
def variables_of_mpi():
    """Returns the variables that jobs/environment.sh sets."""
    script = 'source "$0" && env -0'
    text = subprocess.run(["bash", "-c", script, SOURCE / "jobs" / "environment.sh"], check=True,
                          stdout=subprocess.PIPE).stdout.decode()
    variables = dict(entry.split("=", 1) for entry in text.split("\0") if entry)
    return {key: value for key, value in variables.items() if key.startswith("OMPI_")}


def environment():
    """Returns the environment of a run, without a launcher's variables, and with the tests' cache."""
    variables = {key: value for key, value in {**os.environ, **variables_of_mpi()}.items()
                 if not key.startswith(LAUNCHER_MARKS)}
    return {**variables, "XDG_CACHE_HOME": str(CACHE)}


def end_with_parent():
    """Runs in the child: if CTest kills the test, mpirun ends, too, and its ranks with it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Result(typing.NamedTuple):
    code: int  # exit code; negative: ended by that signal
    stdout: str
    stderr: str
    seconds: float

    def error_lines(self):
        return [line for line in self.stderr.splitlines() if line.startswith("hidup: error")]


class Launch:
    """A started run. It ends, with all its ranks, at the end of the with block."""

    def __init__(self, ranks, args, env=None, cwd=None, program=BINARY):
        """Starts the program; with ranks == 0 by itself, without mpirun."""
        launcher = ["mpirun", "-n", str(ranks)] if ranks else []
        command = [*launcher, str(program), *map(str, args)]
        # Output goes to files, because a rank that prints much must not wait for us.
        self._stdout = tempfile.TemporaryFile("w+")
        self._stderr = tempfile.TemporaryFile("w+")
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._stdout, stderr=self._stderr, cwd=cwd,
            env={**environment(), **(env or {})}, start_new_session=True, preexec_fn=end_with_parent)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.running():
            self.kill()
        self._stdout.close()
        self._stderr.close()

    def running(self):
        return self._process.poll() is None

    def ranks(self):
        """Returns {rank: process id} of the living ranks."""
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

    def signal(self, number):
        """Sends a signal to mpirun, which passes some on."""
        os.kill(self._process.pid, number)

    def kill(self):
        """Sends SIGKILL to all ranks at once. mpirun then ends by itself, and cleans up after them."""
        for pid in children(self._process.pid) or [self._process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            self._process.wait(SOON)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait(self, timeout):
        """Returns the Result; after timeout seconds kills all processes and fails the test."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {timeout} s:\n{self._read(self._stderr)}")
        return Result(code, self._read(self._stdout), self._read(self._stderr),
                      time.monotonic() - self._started)

    def wait_for_rows(self, path, rows, timeout=60):
        """Waits until a reader of the timing file sees that many steps; returns their number."""
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


class Trained(typing.NamedTuple):
    """The results of a run."""
    path: pathlib.Path  # the timing file
    loss: numpy.ndarray  # [steps]
    grad_norm: numpy.ndarray  # [steps]
    gradients: dict  # parameter -> gradient of step 1


def stat(pid):
    """Returns (state, parent) of a process; state Z: ended, but not yet waited for. None: no process."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1])


def alive(pid):
    return (stat(pid) or "Z")[0] != "Z"


def left_alive(pids, within):
    """Returns the processes that still live after that many seconds, or at once when none does."""
    deadline = time.monotonic() + within
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def children(parent):
    pids = [int(path.name) for path in pathlib.Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if (stat(pid) or (None, None))[1] == parent]


def run(ranks, args, timeout=120, **options):
    with Launch(ranks, args, **options) as launch:
        return launch.wait(timeout)


def losses(path):
    """Returns the losses of a timing file, even during writing; empty until it is readable."""
    try:
        with h5py.File(path, "r", swmr=True) as file:
            return file["iterations/loss"][:]
    except (OSError, KeyError):
        return numpy.empty(0)


def write_section(name, values):
    return f"{name}:\n" + "".join(f"  {key}: {value}\n" for key, value in values.items())


class RunTest(unittest.TestCase):
    """A test with a folder of its own, and the small decks in it."""

    program = BINARY

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hidup-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        words = random.Random(7).choices(["the", "rank", "waits", "for", "its", "sum;", "\n"], k=900)
        (self.folder / "text.txt").write_text(" ".join(words))
        self.deck = self.folder / "model.yaml"
        self.write_deck()
        (self.folder / "cluster.yaml").write_text(
            "cluster:\n"
            f"  device: {{kind: {DEVICE}, threads: 1}}\n"
            "  mesh: [{name: ranks, size: auto}]\n"
            "  comm: {heartbeat_timeout: 3s}\n"
            "  profile: none\n")

    def small_disk(self):
        """Returns a folder with room for 1 MiB; skips the test where there can be none."""
        disk = self.folder / "disk"
        disk.mkdir()
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk],
                               stderr=subprocess.PIPE, text=True)
        if mount.returncode != 0:
            self.skipTest(f"a full disk needs a small one, and mount says: {mount.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", disk], check=True)
        return disk

    def write_deck(self, **model):
        """Writes the small model deck; model: more of its keys."""
        self.deck.write_text(
            write_section("model", {**MODEL, **model}) +
            write_section("data", dict(kind="text", path="text.txt", tokenizer="bytes")) +
            write_section("train", TRAIN))

    def train_args(self, out, *more):
        """Returns arguments of hidup train for the small decks and strategy dp; more: for example
        train.steps=5, or lists of other arguments."""
        args = ["train", self.deck, "--cluster", self.folder / "cluster.yaml",
                "--out", self.folder / out]
        for setting in more:
            args += setting if isinstance(setting, list) else ["--set", setting]
        return args if "--strategy" in args else [*args, "--strategy", "dp"]

    def assert_done(self, result):
        self.assertEqual(result.code, 0, result.stderr)

    def train(self, ranks, *more, steps=TRAIN["steps"]):
        """Returns the results of a run that must succeed; more: as for train_args()."""
        name = f"run{len(list(self.folder.iterdir()))}"
        out = self.folder / f"{name}.h5"
        gradients = self.folder / f"{name}-gradients.h5"
        self.assert_done(run(ranks, self.train_args(
            out.name, f"train.steps={steps}", ["--dump-gradients", gradients], *more),
            program=self.program))
        with h5py.File(out) as file:
            self.assertEqual(file.attrs["world_size"], ranks)
            loss = file["iterations/loss"][:]
            grad_norm = file["iterations/grad_norm"][:]
        self.assertEqual(len(loss), steps)
        with h5py.File(gradients) as file:
            found = {key: file[key][:].astype(numpy.float64) for key in file}
        self.assertGreater(len(found), 10)
        return Trained(out, loss, grad_norm, found)

    def assert_equal_runs(self, one, other, step_tolerance=STEP_TOLERANCE):
        numpy.testing.assert_allclose(other.loss, one.loss, rtol=step_tolerance)
        numpy.testing.assert_allclose(other.grad_norm, one.grad_norm, rtol=step_tolerance)
        self.assertEqual(one.gradients.keys(), other.gradients.keys())
        for name, expected in one.gradients.items():
            self.assertEqual(expected.shape, other.gradients[name].shape, name)
            size = numpy.abs(expected).max()
            self.assertGreater(size, 0, f"{name} has no gradient at all")
            difference = numpy.abs(expected - other.gradients[name]).max() / size
            self.assertLessEqual(difference, GRADIENT_TOLERANCE, name)

    def assert_one_error(self, result, code, *texts):
        """Checks for that exit code and one line of error with all the texts."""
        self.assertEqual(result.code, code, result.stderr)
        lines = result.error_lines()
        self.assertEqual(len(lines), 1, result.stderr)
        for text in texts:
            self.assertIn(text, lines[0])
