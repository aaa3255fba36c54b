"""The test bed of several hosts (jobs/testbed): runs on it, its limits, and its removal."""

import os
import re
import shutil
import subprocess
import sys
import time
import unittest
from unittest import mock

import h5py

import harness
from testbed import (BURST, REFUSED, STATE, TESTBED, USAGE, TestbedTest, names, networks, script)

SCRIPTS = ("up.sh", "down.sh", "rate.sh", "host.sh", "run.sh")

# Usage: host.sh HOST python3 -c SERVER | CLIENT HOST BYTES. The client prints the seconds for a connection
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

harness_run = harness.run


def run_on_hosts(ranks, args, program=harness.BINARY, **options):
    return harness_run(0, ["-n", ranks, program, *args], program=TESTBED / "run.sh", **options)


def run_spread(ranks, args, program=harness.BINARY, **options):
    """Neighbouring ranks are on different hosts."""
    return harness_run(0, ["-n", ranks, "--spread", program, *args], program=TESTBED / "run.sh",
                       **options)


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

    def test_ranks_of_a_host_become_neighbours(self):
        """mpirun spreads the ranks; cluster.order brings those of a host together."""
        self.write_deck(sequence=85)  # more activations than gradients
        cluster = self.folder / "cluster.yaml"
        cluster.write_text(cluster.read_text().replace(
            "[{name: ranks, size: auto}]", "[{name: node, size: 2, bandwidth: 1Gbps}, "
                                           "{name: core, size: 2, bandwidth: 5GB/s}]"))
        strategy = ["--strategy", "node=dp,core=megatron"]
        self.script("up.sh", "--rate", "1gbit")
        runs, sent = [], []
        for order in ("as-given", "auto"):
            before = self.sent()
            with mock.patch.object(harness, "run", run_spread):
                runs.append(self.train(4, strategy, f"cluster.order={order}"))
            sent.append(self.sent() - before)
        self.assert_equal_runs(*runs)
        # As given, activations cross the network; in order, gradients alone do.
        self.assertGreater(sent[0], 2 * sent[1])
        self.assertEqual(self.order_of(runs[0]), (["hidup0", "hidup1"] * 2, None))
        self.assertEqual(self.order_of(runs[1]), (["hidup0"] * 2 + ["hidup1"] * 2, "0 2 1 3"))

        said = "cluster.order: ranks of a host are neighbours along core: order 0 2 1 3"
        devices = "cluster.devices=[{host: hidup1, flops: 1GFLOPS}, {host: hidup0, flops: 2GFLOPS}]"
        for setting, text in ((devices, f"{said}\n"),
                              (devices.replace("host: hidup1", "count: 2"), f"{said} would be better")):
            with self.subTest(setting=setting):
                result = run_spread(4, self.train_args("devices.h5", strategy, setting,
                                                       "train.steps=1", ["--overwrite"]))
                self.assert_done(result)
                self.assertIn(text, result.stderr)
                with h5py.File(self.folder / "devices.h5") as file:
                    ranks = re.findall(r'ranks: "(.*)"', file["input/resolved"][()].decode())
                self.assertEqual(ranks, ["2, 3", "0, 1"] if setting == devices else ["auto", "0, 2"])
        doctor = run_spread(4, ["doctor", "--cluster", cluster, "--set", devices])
        self.assert_done(doctor)
        self.assertIn(f"{said}\n", doctor.stderr)
        self.assertEqual(re.findall(r"^ +\d  (hidup\d) ", doctor.stdout, re.MULTILINE),
                         ["hidup0"] * 2 + ["hidup1"] * 2, doctor.stdout)
        self.down()

    @staticmethod
    def order_of(trained):
        with h5py.File(trained.path) as file:
            return list(file.attrs["hostnames"]), file.attrs.get("mpi_ranks")

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
        """Returns the bytes that hidup1 has sent so far."""
        return int(self.script("host.sh", "hidup1", "cat", "/sys/class/net/eth0/statistics/tx_bytes"))

    def test_hosts(self):
        """A host has its own name, cores and files; exit codes are passed on."""
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


class Limits(TestbedTest):

    def send(self, sender, receiver, size):
        """Returns (seconds to connect, seconds for size bytes) from host to host."""
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
        # The best of several counts, because other work on the machine must not look like a limit.
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
        self.down()  # a second time does no harm
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
        # A copy is used, because other users may not be able to read this checkout.
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
