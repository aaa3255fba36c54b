#!/usr/bin/env python3
"""Runs hidup on decks, strategies, hints, graphs, profiles and command lines with random changes, and
reports the runs that ended as no run should.

    tests/fuzz/fuzz.py --seed 1 --runs 20000

A run must end within 10 s with exit code 0, 2, 3, 4 or 6 (8 where the message says that this build
lacks a feature of the deck). It prints a line of error unless the code is 0, and no control bytes; it
leaves its inputs unchanged, and whole outputs or none. Case N of a seed is always the same:

    tests/fuzz/fuzz.py --seed 1 --case N

The files of a finding are stored, as they were before the run, in out/fuzz/SEED/CASE-RUN, with the
command. Exits with 1 if there is a finding.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import shlex
import shutil
import sys
import tempfile
import threading
import time

import cases
import keys
from runs import SOURCE, Case, Limits, Runner, lay_out, look
from scenes import SCENES, make_scene

GIB = 2 ** 30


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1", help="of the random numbers; any word")
    parser.add_argument("--runs", type=int, default=300, help="ends after so many runs")
    parser.add_argument("--case", type=int, help="this case only")
    parser.add_argument("--only", action="append", choices=[kind.__name__ for kind in cases.KINDS],
                        help="this kind of case; several times: these kinds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs side by side")
    parser.add_argument("--seconds", type=float, default=10, help="time limit of a run")
    parser.add_argument("--memory", type=float, default=6,
                        help="limit of a run's address space in GiB; 0: none, for sanitizers")
    parser.add_argument("--keep", type=pathlib.Path, default=SOURCE / "out" / "fuzz",
                        help="folder for what is found")
    parser.add_argument("--binary", type=pathlib.Path,
                        default=os.environ.get("HIDUP_BINARY", SOURCE / "build" / "hidup"))
    return parser.parse_args(arguments)


class Fuzzer:
    def __init__(self, options, scratch):
        self.options = options
        self.scratch = scratch
        self.runner = Runner(options.binary.absolute(), scratch,
                             Limits(options.seconds, int(options.memory * GIB)))
        self.keep = options.keep.absolute() / options.seed
        self.done = []  # (case number, Ran)
        self.findings = []
        self._lock = threading.Lock()
        self._next = 0
        setup = self.case(-1)
        reference = setup.run("validate", "--keys").stdout.decode()
        self.keys = keys.parse_reference(reference)
        self.scenes = [make_scene(*scene, self.case(-2 - number))
                       for number, scene in enumerate(SCENES)]
        self.kinds = {kind: weight for kind, weight in cases.KINDS.items()
                      if not options.only or kind.__name__ in options.only}

    def case(self, number):
        folder = self.scratch / str(number)
        folder.mkdir()
        return Case(self.runner, number, random.Random(f"{self.options.seed} {number}"), folder,
                    self.keep)

    def do(self, number):
        case = self.case(number)
        kind = case.rng.choices(list(self.kinds), list(self.kinds.values()))[0]
        kind(case, self.scenes, self.keys)
        shutil.rmtree(case.folder)
        with self._lock:
            self.done += [(number, ran) for ran in case.runs]
            self.findings += case.findings
        for finding in case.findings:
            print(f"case {number}: {printable(finding.kind())}", flush=True)

    def work(self):
        while True:
            with self._lock:
                number = self._next
                if len(self.done) >= self.options.runs:
                    return
                self._next += 1
            self.do(number)

    def run_all(self):
        if self.options.case is not None:
            self.do(self.options.case)
            return
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for worker in [pool.submit(self.work) for _ in range(self.options.jobs)]:
                worker.result()  # raises the worker's error

    def try_slow_ones_again(self):
        """A run that took too long on a busy machine counts only if it does so alone."""
        left = []
        for finding in self.findings:
            if finding.ran.code is None:
                folder = self.scratch / "again"
                lay_out_again(finding, folder)
                again = self.runner.run(finding.ran.command, folder)
                if again.code is not None:
                    print(f"{finding.kept.name}: {again.seconds:.1f} s when alone")
                    continue
            left.append(finding)
        self.findings = left


def printable(text):
    return text.encode("unicode_escape").decode()[:500]


def lay_out_again(finding, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    lay_out(look(finding.kept / "files"), folder)


def report(fuzzer, seconds):
    codes = collections.Counter("time limit" if ran.code is None else str(ran.code)
                                for _, ran in fuzzer.done)
    runs = len(fuzzer.done)
    print(f"\n{runs} runs in {seconds:.0f} s, {runs / seconds:.1f} a second; seed "
          f"{fuzzer.options.seed}")
    print("exit code " + ", ".join(f"{code}: {codes[code]}" for code in sorted(codes)))
    print("slowest   " + ", ".join(f"{ran.seconds:.1f} s (case {number})" for number, ran in
                                   sorted(fuzzer.done, key=lambda run: -run[1].seconds)[:5]))
    print("memory    " + ", ".join(f"{ran.peak_bytes / 2**20:.0f} MiB (case {number})"
                                   for number, ran in
                                   sorted(fuzzer.done, key=lambda run: -run[1].peak_bytes)[:5]))
    groups = collections.defaultdict(list)
    for finding in fuzzer.findings:
        groups[finding.kind()].append(finding)
    print(f"findings  {len(fuzzer.findings)}, of {len(groups)} kind(s)")
    for kind, findings in sorted(groups.items(), key=lambda group: -len(group[1])):
        shortest = min(findings, key=lambda finding: len(" ".join(finding.ran.command)))
        print(f"\n{len(findings)}x {printable(kind)}")
        print(f"  repeat: cd {shortest.kept}/files && bash ../command")
        print(f"  {printable(shlex.join(shortest.ran.command[shortest.ran.command.index('--'):]))}")


def main(arguments=None):
    options = parse_arguments(arguments)
    shutil.rmtree(options.keep / options.seed, ignore_errors=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hidup-fuzz-") as scratch:
        fuzzer = Fuzzer(options, pathlib.Path(scratch))
        try:
            fuzzer.run_all()
            fuzzer.try_slow_ones_again()
        finally:
            fuzzer.runner.kill_all()
        report(fuzzer, time.monotonic() - began)
    return 1 if fuzzer.findings else 0


if __name__ == "__main__":
    sys.exit(main())
