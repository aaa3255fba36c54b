"""The test bed of several hosts (jobs/testbed): what runs on it, its limits, and what it leaves."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from unittest import mock

import h5py
import numpy

import harness

sys.path.insert(0, str(harness.SOURCE / "analysis"))
import hidup_timings  # noqa: E402

TESTBED = harness.SOURCE / "jobs" / "testbed"
STATE = pathlib.Path("/run/hidup-testbed")
NAMESPACES = pathlib.Path("/run/netns")

REFUSED, USAGE = 1, 2
SCRIPTS = ("up.sh", "down.sh", "rate.sh", "host.sh", "run.sh")

BURST = 128e3  # bytes, the default of up.sh

# host.sh HOST python3 -c SERVER | CLIENT HOST BYTES. The client prints the seconds for a connection
# and those until the server has all the bytes.
SERVER = """
import socket
server = socket.create_server(("", 5001))
print("listening", flush=True)
connection, _ = server.accept()
while connection.recv(1 << 20):
    pass
connection.sendall(b"!")
"""
CLIENT = """
import socket, sys, time
start = time.monotonic()
connection = socket.create_connection((sys.argv[1], 5001), timeout=60)
connected = time.monotonic()
connection.sendall(bytes(int(sys.argv[2])))
connection.shutdown(socket.SHUT_WR)
assert connection.recv(1) == b"!"
print(connected - start, time.monotonic() - connected)
"""


def script(name, *args, timeout=60, folder=TESTBED, prefix=()):
    return subprocess.run([*prefix, folder / name, *map(str, args)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout)


def why_not():
    """Why there can be no test bed here; None: there can."""
    if os.geteuid() != 0:
        return "a test bed needs root"
    missing = [tool for tool in ("ip", "tc", "unshare", "flock", "taskset", "setpriv")
               if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} missing: jobs/install.sh --testbed"
    may = subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, text=True)
    return may.stderr.strip() if may.returncode != 0 else None


def run_on_hosts(ranks, args, program=harness.BINARY, **options):
    return harness_run(0, ["-n", ranks, program, *args], program=TESTBED / "run.sh", **options)


harness_run = harness.run


def names():
    """The namespaces of a test bed."""
    if not NAMESPACES.exists():
        return []
    return sorted(path.name for path in NAMESPACES.iterdir()
                  if re.fullmatch(r"hidup(\d+|-switch)", path.name))


def links():
    return sorted(os.listdir("/sys/class/net"))


def networks():
    """What tells the test bed's networks from others, also once they have no name any more."""
    return {os.stat(NAMESPACES / name).st_ino for name in names()}


def processes_in(numbers):
    """Processes that live in one of these networks."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.stat(path / "ns" / "net").st_ino in numbers and harness.alive(path.name):
                found.append((path / "cmdline").read_bytes())
        except OSError:  # ended meanwhile
            pass
    return found


class TestbedTest(harness.RunTest):

    @classmethod
    def setUpClass(cls):
        reason = why_not()
        if reason:
            raise unittest.SkipTest(reason)
        if (STATE / "settings").exists():
            raise AssertionError("somebody's test bed is up; jobs/testbed/down.sh removes it")

    def setUp(self):
        super().setUp()
        self.links = links()
        self.addCleanup(script, "down.sh")

    def script(self, name, *args, **options):
        """A script that must succeed; its output."""
        result = script(name, *args, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def assert_refused(self, result, code, *texts):
        """That exit code, and one line that holds all the texts."""
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith("testbed: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        for text in texts:
            self.assertIn(text, lines[0])

    def down(self):
        """Takes the test bed down, and looks whether anything is left."""
        numbers = networks()
        self.script("down.sh")
        self.assert_nothing_left(numbers)

    def assert_nothing_left(self, numbers):
        self.assertEqual(names(), [])
        self.assertEqual(links(), self.links)
        self.assertFalse(STATE.exists())
        self.assertEqual(processes_in(numbers), [])

    def start_in(self, namespace):
        """A process in that namespace that ends by SIGKILL only."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", namespace, "bash", "-c", "trap '' TERM; while :; do sleep 1; done"],
            preexec_fn=harness.end_with_parent)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process


class TrainingOnHosts(TestbedTest):

    def test_runs_equal_those_without(self):
        self.write_deck(moe="{experts: 3, every: 2}")
        self.free_threads()
        one = self.train(1)
        self.script("up.sh", "--rate", "1gbit")
        for ranks, strategy in ((2, "dp"), (2, "ep-deepspeed"), (3, "dp")):
            with self.subTest(strategy=strategy, ranks=ranks):
                sent = self.sent()
                with mock.patch.object(harness, "run", run_on_hosts):
                    other = self.train(ranks, ["--strategy", strategy])
                self.assert_equal_runs(one, other)
                with h5py.File(other.path) as file:
                    hosts = list(file.attrs["hostnames"])
                self.assertEqual(hosts, ["hidup0", "hidup0", "hidup1"][3 - ranks:])
                # Every step needs at least the other host's gradients, or its tokens.
                self.assertGreater(self.sent() - sent, harness.TRAIN["steps"] * 4096)
        self.down()

    def test_a_profile_of_another_rate_is_measured_again(self):
        environment = {"env": {"XDG_CACHE_HOME": str(self.folder / "cache")}}

        def start():
            result = run_on_hosts(2, self.train_args("run.h5", "train.steps=2",
                                                     "cluster.profile=auto", ["--overwrite"]),
                                  **environment)
            self.assert_done(result)
            return result.stderr

        self.script("up.sh", "--rate", "200mbit")
        self.assertIn("kept in", start())
        for rate in ("2gbit", "200mbit"):
            self.script("rate.sh", rate)
            self.assertRegex(start(), r"is measured again: all_reduce of \S+ [KM]iB along ranks takes")
        self.down()

    def free_threads(self):
        deck = self.folder / "cluster.yaml"
        deck.write_text(deck.read_text().replace(", threads: 1", ""))

    def sent(self):
        """Bytes that hidup1 sent so far."""
        return int(self.script("host.sh", "hidup1", "cat", "/sys/class/net/eth0/statistics/tx_bytes"))

    def test_hosts(self):
        """Names, cores and files of a host are its own; exit codes come through."""
        self.script("up.sh", "--hosts", 2)
        asked = "import os, socket; print(socket.gethostname(), *sorted(os.sched_getaffinity(0)))"
        cores = []
        for host in ("hidup0", "hidup1"):
            name, *own = self.script("host.sh", host, sys.executable, "-c", asked).split()
            self.assertEqual(name, host)
            cores += own
        here = sorted(map(str, os.sched_getaffinity(0)))
        self.assertEqual(sorted(cores), here if len(here) > 1 else 2 * here)
        self.assertEqual(script("host.sh", "hidup1", "bash", "-c", "exit 7").returncode, 7)
        self.assert_refused(script("host.sh", "hidup2", "true"), REFUSED, "hidup2")
        lines = self.script("run.sh", "bash", "-c", "echo $OMPI_COMM_WORLD_RANK $(hostname) $TMPDIR")
        self.assertEqual(sorted(lines.splitlines()),
                         [f"{i} hidup{i} {STATE}/hidup{i}" for i in (0, 1)])
        self.down()

    def test_down_ends_a_run(self):
        self.script("up.sh")
        args = ["-n", 2, harness.BINARY, *self.train_args("run.h5", "train.steps=1000000")]
        with harness.Launch(0, args, program=TESTBED / "run.sh") as launch:
            launch.wait_for_rows(self.folder / "run.h5", 3)
            self.down()
            self.assertNotEqual(launch.wait(harness.SOON).code, 0)
        self.assertGreaterEqual(len(harness.losses(self.folder / "run.h5")), 3)


class Experiment(TestbedTest):

    def test_rates_of_a_list(self):
        """jobs/experiments/run.py sets each run's rate: a step sends 1.8 MB, half of it to the other
        host, which at 0.2 Gbit/s takes longer than its bursts."""
        self.script("up.sh")
        out = self.folder / "out"
        result = harness.run(0, [
            harness.SOURCE / "jobs/experiments/run.py", "bandwidth-hosts", "--size", "small",
            "--only", "*-ep-fastmoe", "--testbed", "--set", "train.steps=6", "--out", out],
            program=sys.executable, env={"HIDUP": str(harness.BINARY)})
        self.assert_done(result)
        self.assertIn("rate=200mbit\n", (STATE / "settings").read_text())
        for rate in (2, 0.2):
            with h5py.File(out / f"bert-sgmoe-{rate}-ep-fastmoe.h5") as file:
                self.assertEqual(len(set(file.attrs["hostnames"])), 2)
                seconds = numpy.median(file["ranks/comm_s"][:])
        self.assertGreater(seconds, (0.9e6 - 2 * BURST) * 8 / 0.2e9)
        self.down()


class GoingOnWithWhatIsLeft(TestbedTest):
    """jobs/keep-going.sh on four hosts with a rank each. Messages take a tenth of a second a step."""

    STEPS = 40

    def test_a_host_that_is_lost(self):
        for lost in ("its processes", "its link"):
            with self.subTest(lost=lost):
                self.go_on_without_a_host(lost)

    def go_on_without_a_host(self, lost):
        self.script("up.sh", "--hosts", 4, "--rate", "10mbit")
        name = lost.replace(" ", "-")
        first, second = self.folder / f"{name}.h5", self.folder / f"{name}-2.h5"
        args = self.train_args(first.name, f"train.steps={self.STEPS}",
                               "train.checkpoint.every_steps=5")
        with self.keep_going(4, args) as launch:
            launch.wait_for_rows(first, 12)
            lost_at = time.monotonic()
            if lost == "its processes":
                subprocess.run(["kill", "-KILL", *self.pids("hidup3")], check=True)
            subprocess.run(["ip", "-n", "hidup3", "link", "set", "eth0", "down"], check=True)
            launch.wait_for_rows(second, 1)
            print(f"{lost} lost: the next step after {time.monotonic() - lost_at:.1f} s",
                  file=sys.stderr)
            result = launch.wait(60)
        self.assert_done(result)
        self.assertIn("keep-going: hidup3 does not answer", result.stderr)
        self.assertIn("starts again with 3 rank(s) on hidup0 hidup1 hidup2", result.stderr)
        self.assertEqual([hidup_timings.read_attributes(path)["world_size"]
                          for path in (first, second)], [4, 3])
        self.assertGreaterEqual(hidup_timings.read_attributes(second)["continued_at_step"], 10)
        joined = hidup_timings.read(second)["loss"].to_numpy()
        whole = self.train(1, steps=self.STEPS)
        numpy.testing.assert_allclose(joined, whole.loss, rtol=harness.STEP_TOLERANCE)
        self.down()

    def test_what_does_not_start_again(self):
        self.script("up.sh", "--hosts", 2)
        wrong = self.keep_going_once(2, "model.hidden=-1")
        self.assertEqual(wrong.code, 2, wrong.stderr)
        self.assertNotIn("keep-going", wrong.stderr)
        # Without checkpoints every start is the first one.
        subprocess.run(["ip", "-n", "hidup1", "link", "set", "eth0", "down"], check=True)
        script_that_fails = self.folder / "fails.sh"
        script_that_fails.write_text("#!/bin/sh\nexit 5\n")
        script_that_fails.chmod(0o755)
        failing = self.keep_going_once(2, env={"HIDUP": str(script_that_fails), "LIMIT": "2"})
        self.assertEqual(failing.code, 5, failing.stderr)
        self.assertEqual(failing.stderr.count("starts again"), 2, failing.stderr)
        self.assertIn("3 starts failed without a newer checkpoint than that of step 0",
                      failing.stderr)
        self.down()

    def test_a_stop(self):
        self.script("up.sh", "--hosts", 2)
        out = self.folder / "run.h5"
        with self.keep_going(2, self.train_args(out.name, "train.steps=1000000")) as launch:
            launch.wait_for_rows(out, 3)
            launch.signal(signal.SIGTERM)
            result = launch.wait(harness.SOON)
        self.assertEqual(result.code, 7, result.stderr)
        self.assertNotIn("starts again", result.stderr)
        self.assertEqual(len(list(out.with_suffix(".ckpt").iterdir())), 1)
        self.down()

    def keep_going(self, ranks, args, env=None):
        return harness.Launch(0, ["-n", ranks, "--keep-going", *args[1:]],
                              program=TESTBED / "run.sh",
                              env={"HIDUP": str(harness.BINARY), **(env or {})})

    def keep_going_once(self, ranks, *more, env=None):
        with self.keep_going(ranks, self.train_args("once.h5", *more), env) as launch:
            return launch.wait(60)

    @staticmethod
    def pids(namespace):
        return subprocess.run(["ip", "netns", "pids", namespace], check=True, capture_output=True,
                              text=True).stdout.split()


class Limits(TestbedTest):

    def send(self, sender, receiver, size):
        """(seconds to connect, seconds for size bytes) from host to host."""
        with subprocess.Popen([TESTBED / "host.sh", receiver, sys.executable, "-c", SERVER],
                              stdout=subprocess.PIPE, text=True,
                              preexec_fn=harness.end_with_parent) as server:
            self.assertEqual(server.stdout.readline(), "listening\n")
            output = self.script("host.sh", sender, sys.executable, "-c", CLIENT, receiver, size)
        return tuple(map(float, output.split()))

    def test_rates(self):
        size = 12_500_000  # 1 second at 100mbit
        self.script("up.sh", "--rate", "100mbit")
        for rate in (100e6, 500e6, 2e9):
            self.script("rate.sh", f"{rate / 1e6:.0f}mbit")
            shortest = (size - 2 * BURST) * 8 / rate  # a burst of the host, and one of the switch
            for ends in (("hidup0", "hidup1"), ("hidup1", "hidup0")):
                with self.subTest(rate=rate, ends=ends):
                    _, seconds = self.send(*ends, size)
                    self.report(f"{rate / 1e6:.0f}mbit", size, seconds)
                    self.assertGreater(seconds, 0.98 * shortest)
        self.assertIn("rate none", self.script("rate.sh", "none"))
        # The best of some: other work on the machine must not look like a limit.
        seconds = min(self.send("hidup0", "hidup1", size)[1] for _ in range(5))
        self.report("none", size, seconds)
        self.assertLess(seconds, 0.5, "half of what 100mbit takes")
        self.down()

    @staticmethod
    def report(rate, size, seconds):
        print(f"rate {rate}: measured {size * 8 / seconds / 1e6:.0f} Mbit/s", file=sys.stderr)

    def test_a_rate_that_is_refused_changes_nothing(self):
        self.script("up.sh", "--rate", "300mbit")
        before = self.limits()
        self.assertEqual(before.count("rate 300Mbit"), 4, before)
        self.assert_refused(script("rate.sh", "fast"), REFUSED, "'fast'")
        self.assertEqual(self.limits(), before)
        self.assertIn("rate=300mbit\n", (STATE / "settings").read_text())
        self.down()

    @staticmethod
    def limits():
        return "".join(subprocess.run(["tc", "-n", name, "qdisc", "show"], check=True,
                                      capture_output=True, text=True).stdout for name in names())

    def test_latency(self):
        netem = subprocess.run(["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem",
                                "delay", "1ms"], capture_output=True)
        result = script("up.sh", "--latency", "20ms")
        if netem.returncode != 0:
            self.assert_refused(result, REFUSED, "netem")
            self.assert_nothing_left(set())
            self.skipTest("this kernel has no netem; that --latency says so was tested")
        connecting, _ = self.send("hidup0", "hidup1", 1)
        self.assertGreater(connecting, 2 * 0.020)
        self.down()


class UpAndDown(TestbedTest):

    def test_one_at_a_time(self):
        self.script("up.sh", "--hosts", 3)
        self.assertEqual(names(), ["hidup-switch", "hidup0", "hidup1", "hidup2"])
        numbers = networks()
        self.assert_refused(script("up.sh"), REFUSED, "up already", "down.sh")
        self.assertEqual(networks(), numbers)
        self.down()
        self.down()  # nothing there: fine
        for name in ("run.sh", "host.sh", "rate.sh"):
            self.assert_refused(script(name, "hidup0", "true"), REFUSED, "up.sh")

    def test_down_ends_what_does_not_want_to(self):
        self.script("up.sh")
        process = self.start_in("hidup1")
        self.down()
        self.assertIsNotNone(process.wait(harness.SOON))

    def test_leftovers_of_a_crash(self):
        up = subprocess.Popen([TESTBED / "up.sh", "--hosts", "40"], stdout=subprocess.DEVNULL,
                              preexec_fn=harness.end_with_parent)
        deadline = time.monotonic() + 30
        while len(names()) < 4 and time.monotonic() < deadline:
            time.sleep(0.001)
        up.kill()
        up.wait()
        self.assertGreaterEqual(len(names()), 4)
        self.assertFalse((STATE / "settings").exists(), "it was killed too late")
        process = self.start_in("hidup1")
        leftovers = networks()
        self.script("up.sh", "--hosts", 2)
        self.assertIsNotNone(process.wait(harness.SOON))
        self.assertEqual(names(), ["hidup-switch", "hidup0", "hidup1"])
        self.assertEqual(self.script("host.sh", "hidup1", "hostname"), "hidup1\n")
        self.down()
        self.assert_nothing_left(leftovers)

    def test_what_fails_is_removed(self):
        self.assert_refused(script("up.sh", "--rate", "fast"), REFUSED, "'fast'")
        self.assert_nothing_left(set())

    def test_arguments(self):
        for args in (["--hosts", "0"], ["--hosts", "100"], ["--hosts"], ["--speed", "1gbit"]):
            with self.subTest(args=args):
                self.assert_refused(script("up.sh", *args), USAGE, args[0])
        self.assert_nothing_left(set())

    def test_needs_root(self):
        # A copy: nobody else may be able to read this checkout.
        jobs = self.folder / "jobs"
        shutil.copytree(harness.SOURCE / "jobs", jobs)
        self.folder.chmod(0o755)
        for name in (*SCRIPTS, "slurm-up.sh", "slurm-down.sh"):
            with self.subTest(script=name):
                args = ["hidup0", "true"] if name in ("rate.sh", "host.sh", "run.sh") else []
                self.assert_refused(
                    script(name, *args, folder=jobs / "testbed",
                           prefix=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]),
                    REFUSED, "root is needed")
        self.assert_nothing_left(set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
