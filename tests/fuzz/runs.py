"""Runs the program under test on the files of a folder, and reports a wrong end."""

import json
import os
import pathlib
import re
import select
import shlex
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
import threading
import typing

SOURCE = pathlib.Path(__file__).resolve().parents[2]

ALLOWED_CODES = (0, 2, 3, 4, 6, 9)
NOT_BUILT = 8  # a deck may need a feature that this build lacks; the message must say so
NOT_BUILT_WORDS = re.compile(r"built for|built without|no CUDA|NCCL")
LONGEST_LINE = 2000  # characters of a line of standard error
MOST_ERROR_TEXT = 100_000  # characters of all of it

CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")  # except tabs and newlines


class Limits(typing.NamedTuple):
    seconds: float
    memory: int  # bytes of address space; 0: none


class Ran(typing.NamedTuple):
    command: list
    code: int  # negative: ended by that signal; None: still ran at the time limit
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    stdout: bytes
    stderr: bytes

    def error_lines(self):
        return [line for line in self.stderr.decode("latin-1").split("\n")
                if line.startswith("hidup: error")]


class Finding(typing.NamedTuple):
    what: str
    ran: Ran
    kept: pathlib.Path  # a folder with the files from before the run, and the command

    def kind(self):
        """Returns the same text for findings that look alike."""
        exited = self.what.startswith("exit code")
        first = (self.ran.error_lines() or [""])[0] if exited else ""
        return f"{self.what} {re.sub(r'[0-9][0-9.e+-]*', '#', first)[:120]}"


def environment(scratch):
    """Returns jobs/environment.sh's variables with a separate cache and without a launcher's variables."""
    script = SOURCE / "jobs" / "environment.sh"
    text = subprocess.run(["bash", "-c", 'source "$0" && env -0', script], check=True,
                          stdout=subprocess.PIPE).stdout.decode()
    variables = dict(entry.split("=", 1) for entry in text.split("\0") if entry)
    kept = {key: value for key, value in variables.items()
            if not key.startswith(("OMPI_COMM_", "PMIX_", "SLURM_"))}
    return {**kept, "XDG_CACHE_HOME": str(scratch / "cache"), "LC_ALL": "C.UTF-8"}


def look(folder):
    """Returns {name: content}: bytes of a file, "folder", "pipe" or the target of a link."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        name = str(path.relative_to(folder))
        if stat.S_ISREG(mode):
            found[name] = path.read_bytes()
        elif stat.S_ISLNK(mode):
            found[name] = "link " + os.readlink(path)
        else:
            found[name] = "folder" if stat.S_ISDIR(mode) else "pipe"
    return found


def lay_out(files, folder):
    """Recreates the files that look() saw."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content == "folder":
            path.mkdir(exist_ok=True)
        elif content == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(content.removeprefix("link "))


class Runner:
    """Starts runs with the limits each; thread-safe."""

    def __init__(self, binary, scratch, limits):
        self.binary = str(binary)
        self.limits = limits
        self._environment = environment(scratch)
        self._running = set()
        self._lock = threading.Lock()

    def command(self, arguments, ranks):
        # If its parent is killed, a run still ends when it has used up its CPU time.
        cpu_seconds = 1 + int(self.limits.seconds * (os.cpu_count() + 2))
        memory = [f"--as={self.limits.memory}"] if self.limits.memory else []
        launcher = ["mpirun", "-n", str(ranks)] if ranks else []
        return ["prlimit", f"--cpu={cpu_seconds}", "--core=0", *memory, "--",
                *launcher, self.binary, *arguments]

    def run(self, command, folder, stdout_path=None):
        outputs = [open(stdout_path, "r+b") if stdout_path else tempfile.TemporaryFile(),
                   tempfile.TemporaryFile()]
        began = os.times().elapsed
        process = subprocess.Popen(command, cwd=folder, env=self._environment,
                                   stdin=subprocess.DEVNULL, stdout=outputs[0], stderr=outputs[1],
                                   start_new_session=True)
        with self._lock:
            self._running.add(process.pid)
        in_time = wait_for(process.pid, self.limits.seconds)
        if not in_time:
            os.killpg(process.pid, signal.SIGKILL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # Popen need not wait
        with self._lock:
            self._running.discard(process.pid)
        seconds = os.times().elapsed - began
        texts = [b"" if stdout_path else content_of(outputs[0]), content_of(outputs[1])]
        for output in outputs:
            output.close()
        return Ran(command, process.returncode if in_time else None, seconds,
                   usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, *texts)

    def kill_all(self):
        with self._lock:
            for pid in self._running:
                os.killpg(pid, signal.SIGKILL)


def content_of(file):
    file.seek(0)
    return file.read()


def wait_for(pid, seconds):
    """Returns true if the process ends in time."""
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


class Expected(typing.NamedTuple):
    """Permissions of a run beyond those of every run."""
    outputs: tuple = ()  # files that it writes
    json: bool = False  # standard output is JSON


def complaints(ran, before, after, expected):
    """Returns a list of texts about a run's wrong end."""
    found = (wrong_code(ran), wrong_stderr(ran),
             wrong_stdout(ran, expected) if ran.code == 0 else "",
             wrong_files(ran, before, after, expected))
    return [complaint for complaint in found if complaint]


def wrong_code(ran):
    if ran.code is None:
        return "ran longer than the time limit"
    if ran.code < 0:
        return f"ended by {signal.Signals(-ran.code).name}"
    text = " ".join(ran.error_lines())
    if ran.code in ALLOWED_CODES or (ran.code == NOT_BUILT and NOT_BUILT_WORDS.search(text)):
        return ""
    return f"exit code {ran.code}"


def wrong_stderr(ran):
    if ran.code is None or ran.code < 0:
        return ""
    if CONTROL.search(ran.stderr):
        return "control bytes in standard error"
    errors = len(ran.error_lines())
    if ran.code == 0 and errors:
        return "exit code 0, but an error is printed"
    if ran.code != 0 and not 1 <= errors <= 3:
        return f"exit code {ran.code} with {errors} lines of error"
    longest = max(map(len, ran.stderr.decode("utf-8", "replace").split("\n")))
    if longest > LONGEST_LINE:
        return "a very long line in standard error"
    return "much text in standard error" if len(ran.stderr) > MOST_ERROR_TEXT else ""


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def wrong_stdout(ran, expected):
    if not expected.json:
        return ""
    try:
        json.loads(ran.stdout, parse_constant=refuse_constant)
    except ValueError as error:
        return f"standard output is not JSON: {error}"
    return ""


def wrong_files(ran, before, after, expected):
    changed = {name for name in before.keys() | after.keys()
               if before.get(name) != after.get(name) and after.get(name) != "folder"}
    wrong = changed - set(expected.outputs)
    if wrong:
        return f"{', '.join(sorted(wrong))} changed"
    if ran.code is None:
        return ""  # it was killed
    if ran.code != 0:
        return f"exit code {ran.code}, but {min(changed)} is there" if changed else ""
    asked_for_help = {"-h", "--help", "--version"} & set(ran.command)
    for name in [] if asked_for_help else expected.outputs:
        if not is_complete(name, after.get(name)):
            return f"{name} is not complete"
    return ""


def is_complete(name, content):
    if not isinstance(content, bytes) or not content:
        return False
    if not name.endswith(".h5"):
        return content.endswith(b"\n")
    # In HDF5's superblock, version 3: the file is not open for writing, and its end is right.
    return (content.startswith(b"\x89HDF\r\n\x1a\n\x03") and content[11] == 0
            and struct.unpack_from("<Q", content, 28)[0] == len(content))


class Case:
    """One case: files in a folder of its own, and its findings."""

    def __init__(self, runner, number, rng, folder, keep):
        self.rng = rng
        self.folder = folder
        self.runs = []
        self.findings = []
        self._runner = runner
        self._number = number
        self._keep = keep

    def write(self, files):
        for name, text in files.items():
            (self.folder / name).write_bytes(text.encode("latin-1", "replace"))

    def read(self, name):
        return (self.folder / name).read_bytes().decode("latin-1")

    def run(self, *arguments, ranks=0, stdout_path=None, outputs=(), json_out=False):
        arguments = [argument.replace("\0", "") for argument in arguments]
        command = self._runner.command(arguments, ranks)
        before = look(self.folder)
        ran = self._runner.run(command, self.folder, stdout_path)
        self.runs.append(ran)
        found = complaints(ran, before, look(self.folder),
                           Expected(tuple(outputs), json_out and not stdout_path))
        if stdout_path == "/dev/full" and ran.code == 0:
            found.append("exit code 0 although standard output is full")
        self._keep_findings(found, before, ran)
        return ran

    def complain(self, what, ran):
        """Reports a problem that the case itself found."""
        self._keep_findings([what], look(self.folder), ran)

    def _keep_findings(self, found, files, ran):
        if found:
            kept = self._keep / f"{self._number}-{len(self.runs)}"
            keep(kept, files, ran)
            self.findings += [Finding(what, ran, kept) for what in found]


def keep(folder, files, ran):
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "files").mkdir(parents=True)
    lay_out(files, folder / "files")
    (folder / "command").write_bytes(os.fsencode(shlex.join(ran.command)) + b"\n")
    (folder / "stdout").write_bytes(ran.stdout)
    (folder / "stderr").write_bytes(ran.stderr)
