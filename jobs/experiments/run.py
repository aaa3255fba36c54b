#!/usr/bin/env python3
"""Runs an experiment: all runs of a list, each once. What is done already is not run again, so
that a run list that was interrupted goes on where it stopped.

    jobs/experiments/run.py scaling --predict              without ranks: hidup search and explain
    jobs/experiments/run.py one-machine --size small       with mpirun on this machine; --predict where
                                                           the list has no runs for one machine
    jobs/experiments/run.py bandwidth-hosts --testbed      on the hosts of jobs/testbed/up.sh; root
    sbatch jobs/experiments/run.sbatch scaling             as a Slurm job

First it prints the list, with the time and the memory that each run is expected to take. Results:
out/experiments/NAME/RUN.json (predicted) or RUN.h5 (measured: a timing file), RUN.log; for the size
small NAME-small. `python3 -m analysis` draws them; docs/figures shows the figures.

Needs h5py and yaml: where this python3 lacks them, Debian's runs it.
Exit code: 0, or 1 where a run failed (the others still run), 2 for a wrong list or argument.
"""

import argparse
import dataclasses
import fcntl
import fnmatch
import os
import pathlib
import shlex
import signal
import sys

try:
    import execute
    import run_list
except ModuleNotFoundError as error:
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
    from analysis import find_python
    find_python.that_has(error.name)

START_S = 2.0  # of a measured run: start of the ranks, first step, files
PREDICT_S = 1.0  # of a predicted run: hidup explain of some layers, or a search
PROFILE_S = 60.0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", help=f"{', '.join(run_list.experiments())}; or a list's file")
    places = parser.add_mutually_exclusive_group()
    for place, meaning in (("predict", "no ranks: what the cost model says"),
                           ("testbed", "on the hosts of the test bed, which is up"),
                           ("slurm", "inside of a Slurm job: run.sbatch does this")):
        places.add_argument(f"--{place}", dest="place", action="store_const", const=place,
                            help=meaning)
    parser.add_argument("--size", choices=("full", "small"), default="full")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="runs by name, as *-8-*")
    parser.add_argument("--times", type=int, default=1, metavar="N",
                        help="run the list N times; of equal runs the fastest counts")
    parser.add_argument("--profile", action="store_true",
                        help="take a profile before measured runs also where the list asks for none")
    parser.add_argument("--list", action="store_true", help="print the list, run nothing")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="a key of the decks, for all runs")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the results")
    parser.add_argument("--hidup", type=pathlib.Path,
                        default=os.environ.get("HIDUP", run_list.SOURCE / "build/hidup"))
    parser.add_argument("--launcher", default="srun --mpi=pmix", help="for --slurm")
    return parser.parse_args()


def folder_of(options):
    name = pathlib.Path(options.experiment).stem + ("-small" if options.size == "small" else "")
    folder = (options.out or run_list.SOURCE / "out/experiments" / name).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def locked(folder):
    """Held until the program ends: two of them must not write the same files."""
    file = open(folder / ".lock", "w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise run_list.ListError(f"another run.py is at work in {folder}") from None
    return file


def test_bed_is_up():
    return pathlib.Path("/run/hidup-testbed/settings").exists()


def again(run, time):
    """The same run, with a name and results of its own."""
    if time == 0:
        return run
    return dataclasses.replace(run, name=f"{run.name}-again{time}", at={**run.at, "again": time})


def place_for(experiment, runs):
    """Where runs start if the user does not say: on this machine; if none of them can, nowhere."""
    if any("mpirun" in run.places for run in runs):
        return "mpirun"
    print(f"run.py: {experiment} has no run for this machine alone; its runs are predicted",
          file=sys.stderr)
    return "predict"


def chosen(options):
    more = [text.split("=", 1) for text in options.set]
    if any(len(pair) != 2 for pair in more):
        raise run_list.ListError("--set: expected KEY=VALUE")
    about, runs = run_list.read(options.experiment, options.size, more)
    runs = [run for run in runs if fnmatch.fnmatch(run.name, options.only)]
    if not runs:
        raise run_list.ListError(f"no run of {options.experiment} is named {options.only}")
    if options.place is None:
        options.place = place_for(options.experiment, runs)
    runs = [run for run in runs if options.place in run.places]
    if not runs:
        raise run_list.ListError(f"{options.experiment} has no run for --{options.place}")
    if options.profile:
        runs = [dataclasses.replace(run, profile=True) for run in runs]
    runs = [again(run, time) for time in range(options.times) for run in runs]
    if options.place in ("mpirun", "slurm") and any(run.rate is not None for run in runs):
        raise run_list.ListError(f"{options.experiment} has rates of links: only --testbed can set "
                                 "them, and --predict assume them")
    if options.place == "testbed" and not test_bed_is_up():
        raise run_list.ListError("no test bed is up; jobs/testbed/up.sh makes one")
    return about, runs


def expected(executor, run, profiles):
    """(seconds or None, text) of a run, before it runs."""
    if executor.result_of(run).suffix == ".json":
        return PREDICT_S, "no ranks"
    try:
        found = executor.predict(run)
    except execute.RunFailed as error:
        return None, f"not predicted: {error}"
    if "predicted_iteration_s" not in found:
        return None, found["infeasible"].splitlines()[0]
    profile = (run.deck, run.cluster, run.ranks, run.rate)
    extra = PROFILE_S if run.profile and profile not in profiles else 0.0
    profiles.add(profile)
    steps = float(run.settings.get("train.steps", 100))
    return (START_S + extra + steps * found["predicted_iteration_s"],
            f"{found['predicted_peak_bytes'] / 2**20:.0f} MiB a rank")


def print_list(about, runs, executor):
    print(about)
    width = max(len(run.name) for run in runs)
    total, unknown, profiles = 0.0, 0, set()
    for run in runs:
        if executor.is_done(run):
            print(f"  {run.name:<{width}}  done")
            continue
        seconds, text = expected(executor, run, profiles)
        total += seconds or 0.0
        unknown += seconds is None
        time = "unknown" if seconds is None else f"about {seconds:.1f} s"
        print(f"  {run.name:<{width}}  {run.ranks} rank(s)  {time:>14}  {text}")
    print(f"{len(runs)} runs, together about {total:.0f} s"
          + (f", and {unknown} of unknown time" if unknown else ""), flush=True)


def run_all(runs, executor):
    """How many failed."""
    failed = 0
    for run in runs:
        if executor.is_done(run):
            continue
        if executor.place == "testbed" and not test_bed_is_up():
            print("run.py: the test bed is down; the other runs are left", file=sys.stderr)
            return failed + 1
        try:
            seconds = executor.run(run)
            print(f"{run.name}: {seconds:.1f} s", flush=True)
        except execute.RunFailed as error:
            failed += 1
            print(f"{run.name}: failed: {error}", file=sys.stderr, flush=True)
    return failed


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        about, runs = chosen(options)
        folder = folder_of(options)
        lock = locked(folder)
    except run_list.ListError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    with lock:
        executor = execute.Executor(options.place, folder, options.hidup.resolve(),
                                    shlex.split(options.launcher))
        print_list(about, runs, executor)
        failed = 0 if options.list else run_all(runs, executor)
    if failed:
        print(f"run.py: {failed} of {len(runs)} runs failed; their logs are in {folder}",
              file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
