"""Runs single entries of a run list, and knows which ones are done.

A finished run is a file: NAME.json of what is predicted or searched, NAME.h5 of what is measured.
Both hold the run's record, so that a run whose entry was changed runs again.
"""

import ctypes
import json
import pathlib
import signal
import subprocess
import time

import h5py
import yaml

from run_list import SOURCE

INFEASIBLE = (3, 4)  # exit codes of hidup: no strategy fits, or this one does not
LEFT_OUT = ("timeline", "operations", "stages", "buckets", "parameters")  # of explain's JSON
# Without the proof how good a plan is, and with time enough on a machine with other work: on two axes
# a search that its time limit ends finds a worse plan.
WHOLE_SEARCH = ("--level", "fast", "--time-limit", 120)
RECORD = "experiment_run"  # attribute of a timing file
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class RunFailed(Exception):
    """A command failed; its last lines."""


def end_with_parent():
    """In the child: when this program is killed, so is what it started."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def command(words, log=None):
    """(exit code, stdout, stderr); also appended to the file log."""
    with subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, cwd=SOURCE,
                          preexec_fn=end_with_parent) as process:
        try:
            out, err = process.communicate()
        except BaseException:  # a signal: the ranks end with mpirun
            process.terminate()
            process.wait()
            raise
    if log is not None:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(map(str, words))}\n{err}{out if len(out) < 20000 else ''}\n")
    return process.returncode, out, err


def settings(values):
    return [word for key, value in values.items() for word in ("--set", f"{key}={_text(value)}")]


def _text(value):
    """YAML reads on and off as truth values."""
    return ("on" if value else "off") if isinstance(value, bool) else value


class Executor:
    """Runs entries in one place, and keeps their results in a folder."""

    def __init__(self, place, folder, hidup, launcher=()):
        """place: of run_list.PLACES; launcher: words before the program, for slurm's ranks."""
        self.place, self.folder = place, pathlib.Path(folder)
        self._hidup, self._launcher = hidup, list(launcher)
        self._rate = None  # of the test bed's links

    def result_of(self, run):
        """The file that a run leaves here."""
        measured = self.place != "predict" and run.kind == "step"
        return self.folder / f"{run.name}.{'h5' if measured else 'json'}"

    def is_done(self, run):
        path = self.result_of(run)
        try:
            if path.suffix == ".json":
                return json.loads(path.read_text(encoding="utf-8"))["run"] == self._record(run)
            with h5py.File(path) as file:
                return json.loads(file.attrs[RECORD]) == self._record(run)
        except (OSError, KeyError, ValueError):
            return False

    def run(self, run):
        """Seconds that it took. Throws RunFailed."""
        began = time.monotonic()
        path = self.result_of(run)
        if path.suffix == ".json":
            keep = {"run": self._record(run), "result": self.predict(run)}
            part = path.with_suffix(".part")
            part.write_text(json.dumps(keep, indent=1) + "\n", encoding="utf-8")
            part.replace(path)
        else:
            self._measure(run, path)
        return time.monotonic() - began

    def predict(self, run):
        """What search or explain say of it, or {"infeasible": why}. Throws RunFailed."""
        keys = self._keys(run, predicted=True)
        ranks = ["--ranks", run.ranks]
        if run.kind == "search":
            words = ["search", run.deck, "--cluster", run.cluster, *ranks]
        elif run.strategy == "search" and run.search_with is None:
            words = ["search", run.deck, "--cluster", run.cluster, *ranks, *WHOLE_SEARCH]
        else:
            strategy = self._strategy(run, keys)
            words = ["explain", run.deck, "--cluster", run.cluster, *ranks, "--strategy", strategy]
        code, out, err = self._command([self._hidup, *words, "--json", *settings(keys)], run)
        if code in INFEASIBLE:
            return {"infeasible": err.strip()}
        if code != 0:
            raise RunFailed(_last_lines(err))
        result = {key: value for key, value in json.loads(out).items() if key not in LEFT_OUT}
        named = result.get("candidates", {}).get(run.strategy, {"feasible": True})
        return result if named["feasible"] else {**result, "infeasible": named["reason"]}

    def _measure(self, run, path):
        if self.place == "testbed":
            self._set_rate(run)
        keys = self._keys(run, predicted=False)
        strategy = self._strategy(run, keys)
        code, _, err = self._command(
            [*self._ranks(run), self._hidup, "train", run.deck, "--cluster", run.cluster,
             "--strategy", strategy, "--out", path, "--overwrite", *settings(keys)], run)
        if code != 0:
            raise RunFailed(_last_lines(err))
        with h5py.File(path, "a") as file:  # from here on it is done
            file.attrs[RECORD] = json.dumps(self._record(run))

    def _strategy(self, run, keys):
        """A name or the file of a strategy that is searched for apart."""
        if run.search_with is None:
            return run.strategy
        file = self.folder / f"{run.name}.strategy.txt"
        apart = {k: v for k, v in keys.items() if k != "train.microbatches"} | run.search_with
        code, _, err = self._command(
            [self._hidup, "search", run.deck, "--cluster", run.cluster, "--ranks", run.ranks,
             *WHOLE_SEARCH, "--strategy-out", file, "--overwrite", *settings(apart)], run)
        if code != 0:
            raise RunFailed(_last_lines(err))
        return file

    def _keys(self, run, predicted):
        keys = dict(run.settings)
        if run.rate is not None:
            axis = yaml.safe_load((SOURCE / run.cluster).read_text(encoding="utf-8"))
            axis = axis["cluster"]["mesh"][0]["name"]
            keys.setdefault(f"cluster.mesh.{axis}.bandwidth", f"{run.rate}Gbps")
        if not predicted and "cluster.profile" not in keys:
            keys["cluster.profile"] = self._profile(run) if run.profile else "none"
        return keys

    def _profile(self, run):
        """A profile for this model, cluster and rate; measured once."""
        rate = "" if run.rate is None else f"-{run.rate}gbps"
        model, cluster = pathlib.Path(run.deck).stem, pathlib.Path(run.cluster).stem
        file = self.folder / f"profile-{model}-{cluster}-{run.ranks}{rate}.yaml"
        if not file.exists():
            part = file.with_suffix(".part")
            code, _, err = self._command(
                [*self._ranks(run), self._hidup, "profile", run.deck, "--cluster", run.cluster,
                 "--out", part, "--overwrite", *settings(run.settings)], run)
            if code != 0:
                raise RunFailed(_last_lines(err))
            part.replace(file)
        return file

    def _set_rate(self, run):
        if run.rate is not None and run.rate != self._rate:
            code, _, err = command([SOURCE / "jobs/testbed/rate.sh", f"{run.rate * 1000:g}mbit"])
            if code != 0:
                raise RunFailed(_last_lines(err))
            self._rate = run.rate

    def _ranks(self, run):
        if self.place == "testbed":
            return [SOURCE / "jobs/testbed/run.sh", "-n", run.ranks]
        if self.place == "slurm":
            return [*self._launcher, "-n", run.ranks]
        return ["bash", "-c", 'source "$0" && exec mpirun -n "$@"',
                SOURCE / "jobs/environment.sh", run.ranks]

    def _record(self, run):
        predicted = self.result_of(run).suffix == ".json"
        return run.record("predict" if predicted else self.place)

    def _command(self, words, run):
        return command(words, self.folder / f"{run.name}.log")


def _last_lines(text):
    """What hidup calls an error, or else the end of what was printed: mpirun adds lines of its own."""
    lines = text.strip().splitlines()
    return "\n".join([line for line in lines if line.startswith("hidup: error")] or lines[-3:])
