"""Shared by tests of the test bed of several hosts (jobs/testbed)."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

import harness

TESTBED = harness.SOURCE / "jobs" / "testbed"
STATE = pathlib.Path("/run/hidup-testbed")
NAMESPACES = pathlib.Path("/run/netns")

REFUSED, USAGE = 1, 2

BURST = 128e3  # bytes, the default of up.sh


def script(name, *args, timeout=60, folder=TESTBED, prefix=()):
    return subprocess.run([*prefix, folder / name, *map(str, args)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout)


def skip_without(what, tools, namespaces):
    """Skips the test unless `what` has root, the tools, and namespaces (options of unshare)."""
    if os.geteuid() != 0:
        raise unittest.SkipTest(f"{what} needs root")
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise unittest.SkipTest(f"{', '.join(missing)} missing: jobs/install.sh --testbed")
    may = subprocess.run(["unshare", *namespaces, "true"], capture_output=True, text=True)
    if may.returncode != 0:
        raise unittest.SkipTest(may.stderr.strip())


def names():
    """Returns the namespaces of a test bed."""
    if not NAMESPACES.exists():
        return []
    return sorted(path.name for path in NAMESPACES.iterdir()
                  if re.fullmatch(r"hidup(\d+|-switch)", path.name))


def links():
    return sorted(os.listdir("/sys/class/net"))


def networks():
    """Returns the identities of the test bed's networks, which outlive their names."""
    return {os.stat(NAMESPACES / name).st_ino for name in names()}


def processes_in(kind, numbers):
    """Returns {process id: command line} of processes in these namespaces; kind: net, pid."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.stat(path / "ns" / kind).st_ino in numbers and harness.alive(path.name):
                found[int(path.name)] = (path / "cmdline").read_bytes()
        except OSError:  # ended meanwhile
            pass
    return found


class TestbedTest(harness.RunTest):

    @classmethod
    def setUpClass(cls):
        skip_without("a test bed", ("ip", "tc", "unshare", "flock", "taskset", "setpriv"),
                     ("--net", "--mount"))
        if (STATE / "settings").exists():
            raise AssertionError("somebody's test bed is up; jobs/testbed/down.sh removes it")

    def setUp(self):
        super().setUp()
        self.links = links()
        self.addCleanup(script, "down.sh")

    def script(self, name, *args, **options):
        """Runs a script that must succeed; returns its output."""
        result = script(name, *args, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def assert_refused(self, result, code, *texts):
        """Checks for that exit code and one line with all the texts."""
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith("testbed: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        for text in texts:
            self.assertIn(text, lines[0])

    def down(self):
        """Takes the test bed down, and checks that nothing is left."""
        numbers = networks()
        self.script("down.sh")
        self.assert_nothing_left(numbers)

    def assert_nothing_left(self, numbers):
        self.assertEqual(names(), [])
        self.assertEqual(links(), self.links)
        self.assertFalse(STATE.exists())
        self.assertEqual(processes_in("net", numbers), {})

    def start_in(self, namespace):
        """Starts a process in that namespace that only SIGKILL ends."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", namespace, "bash", "-c", "trap '' TERM; while :; do sleep 1; done"],
            preexec_fn=harness.end_with_parent)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process
