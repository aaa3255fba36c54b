"""jobs/gpu.sh without a GPU: its order, its limits, and its report when cut short. Its tools are fakes."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ORDER = ["build", "doctor", "test", "sanitize", "nccl", "kernels", "attention", "peer", "graph",
         "ncu"]
TOOLS = ["nvidia-smi", "nvcc", "cmake", "mpirun", "python3", "compute-sanitizer", "ncu",
         "bench_kernels"]
USAGE, SKIPPED = 2, 77

# A fake tool records its call, prints its given output, and then hangs or fails if told to.
FAKE = """#!/usr/bin/env bash
name=${0##*/}
echo "$name $*" >>"$FAKES/calls"
[[ ! -e $FAKES/$name.out ]] || cat "$FAKES/$name.out"
[[ ${FAKE_HANGS:-} != "$name" ]] || exec sleep 60
[[ ${FAKE_FAILS:-} != "$name" ]]
"""
BENCH = """A product of 8192 x 8192 x 8192 in bf16: 712.5 Tflop/s.
| attention | bf16 | 7 us |
Furthest above their floors: attention_backward: 3.2 ms, matmul: 1 ms, embedding_backward: 9 us.
"""
UNIT_TESTS = ["kernels/test_kernels", "device/test_device", "strategies/test_executor",
              "strategies/test_rules", "strategies/test_strategies"]
KERNELS = """Value of: gate
[  FAILED  ] Kernels.Gate (0 ms)
[==========] 2 tests ran. (3 ms total)
[  PASSED  ] 1 test.
"""


class GpuScriptTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hidup-gpu-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "jobs").mkdir()
        for name in ("gpu.sh", "environment.sh"):
            shutil.copy(SOURCE / "jobs" / name, self.folder / "jobs")
        self.fakes = self.folder / "fakes"
        self.fakes.mkdir()
        for name in TOOLS:
            (self.fakes / name).write_text(FAKE)
            (self.fakes / name).chmod(0o755)
        for path in ("bench/bench_kernels", *UNIT_TESTS):
            program = self.folder / "build-cuda" / "tests" / path
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(FAKE)
            program.chmod(0o755)
        for name, text in {"bench_kernels": BENCH, "test_kernels": KERNELS,
                           "nvidia-smi": "9.0\n"}.items():
            (self.fakes / f"{name}.out").write_text(text)

    def start(self, *parts, **environment):
        environment = {**os.environ, "PATH": f"{self.fakes}:{os.environ['PATH']}",
                       "FAKES": str(self.fakes), **environment}
        environment.pop("HIDUP_REPORT", None)
        process = subprocess.Popen([self.folder / "jobs" / "gpu.sh", *parts], env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(self.kill, process)
        return process

    @staticmethod
    def kill(process):
        if process.poll() is None:
            for child in children(process.pid):
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(child, signal.SIGKILL)
            process.kill()

    def run_script(self, *parts, **environment):
        """Returns (exit code, output)."""
        process = self.start(*parts, **environment)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    def report(self):
        path = self.folder / "out" / "gpu" / "report.md"
        return path.read_text() if path.exists() else ""

    def calls(self):
        return (self.fakes / "calls").read_text().splitlines()

    def assert_in_order(self, texts, text):
        at = -1
        for wanted in texts:
            found = text.find(wanted, at + 1)
            self.assertGreater(found, at, f"{wanted!r} does not follow in\n{text}")
            at = found

    def test_all_parts_in_their_order(self):
        code, output = self.run_script()
        self.assertEqual(code, 0, output)
        report = self.report()
        self.assert_in_order([f"\n# {part.capitalize()}\n" for part in ORDER], report)
        self.assert_in_order(
            ["cmake --preset cuda -DHIDUP_TESTS=ON -DHIDUP_CUDA_ARCHITECTURES=90",
             "cmake --build --preset cpu --target hidup", "cmake --build --preset cuda-tests",
             "mpirun -n 1 build-cuda/hidup doctor",
             "golden_test.py", "precision_test.py", "test_kernels --gtest_brief=1",
             "test_strategies_mpi", "cuda_test.py", "cuda_steps_test.py", "--tool memcheck",
             "--tool racecheck", "--tool synccheck", "test_nccl", "model.vocab=50257",
             "model.vocab=50304", "bert-sgmoe.yaml", "attention.py", "peer.py gpt2-124m",
             "peer.py bert-sgmoe", "graph=auto --set cluster.device.timed_every=10",
             "timed_every=1 ", "graph=off", "hidup@attention_backward/",
             "hidup@matmul/", "hidup@embedding_backward/"], "\n".join(self.calls()))
        self.assertIn("\n| attention | bf16 | 7 us |\n", report)
        self.assertIn("\n    [==========] 2 tests ran. (3 ms total)\n", report)
        self.assertNotIn("Value of: gate", report)
        for call in self.calls():
            if call.startswith("ncu "):
                self.assertIn(" --clock-control none ", call)
        archive = subprocess.run(["tar", "-tzf", self.folder / "out" / "gpu.tar.gz"], check=True,
                                 capture_output=True, text=True).stdout.split()
        self.assertIn("gpu/report.md", archive)
        self.assertIn("gpu/ncu.log", archive)
        self.assertIn("712.5TFLOPS", (self.folder / "out" / "gpu" / "gpu.yaml").read_text())

    def test_limits_are_below_half_an_hour(self):
        code, output = self.run_script("--limits")
        self.assertEqual(code, 0, output)
        limits = dict(line.split() for line in output.splitlines())
        self.assertEqual(list(limits), ORDER)
        self.assertLess(sum(map(int, limits.values())), 1800)
        self.assertLessEqual(max(map(int, limits.values())), 540)

    def test_nothing_runs_after_a_failed_build(self):
        """Later calls do not run anything either, until the build succeeds."""
        for parts in ((), ("--next",), ("doctor",)):
            code, output = self.run_script(*parts, FAKE_FAILS="cmake")
            self.assertEqual(code, 1, output)
        self.assertEqual(len([call for call in self.calls() if call.startswith("cmake")]), 2)
        self.assertNotIn("# Doctor", self.report())
        code, output = self.run_script("build", "doctor")
        self.assertEqual(code, 0, output)
        self.assertIn("# Doctor", self.report())

    def test_calls_that_follow_each_other(self):
        """Each call runs parts that have not run, as long as they end within 9 minutes of its start."""
        self.run_script("build", "doctor")
        code, output = self.run_script("--next", HIDUP_LIMIT="541")
        self.assertEqual(code, 0, output)
        self.assertIn("test and what follows it are for the next call", output)
        code, output = self.run_script("--next")
        self.assertEqual(code, 0, output)
        report = self.report()
        self.assert_in_order([f"\n# {part.capitalize()}\n" for part in ORDER], report)
        self.assertEqual(report.count("\n# "), len(ORDER), report)

    def test_a_part_ends_when_its_time_is_over(self):
        # The time suffices for a fake to print on a busy machine; the next part may need longer.
        code, _ = self.run_script("test", "nccl", HIDUP_LIMIT="5", FAKE_HANGS="test_kernels")
        self.assertEqual(code, 1)
        self.assert_in_order(["# Test", "golden_test.py", "2 tests ran", "**Ended** when its time was over",
                              "device: not run**", "# Nccl", "The part took"],
                             self.report())

    def test_a_failure_is_told_and_the_others_go_on(self):
        code, _ = self.run_script("test", "nccl", FAKE_FAILS="test_kernels")
        self.assertEqual(code, 1)
        self.assert_in_order(["**Failed** with exit code 1", "cuda_test.py", "Done in", "# Nccl"],
                             self.report())

    def test_the_report_is_there_after_a_kill(self):
        process = self.start("doctor", "kernels", FAKE_HANGS="bench_kernels")
        deadline = time.monotonic() + 30
        while "| attention | bf16 |" not in self.report() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.kill(process)
        self.assert_in_order(["# Doctor", "Done in", "The part took", "# Kernels", "50257",
                              "A product of 8192", "| attention | bf16 | 7 us |"], self.report())
        self.assertNotIn("Done in", self.report().partition("# Kernels")[2])

    def test_what_it_refuses(self):
        code, output = self.run_script("build", "speed")
        self.assertEqual(code, USAGE, output)
        self.assertIn("no part 'speed'", output)
        code, output = self.run_script(FAKE_FAILS="nvidia-smi")
        self.assertEqual(code, SKIPPED, output)
        self.assertIn("finds no GPU", output)

    def test_tools_that_are_not_there_are_skipped(self):
        for tool in ("compute-sanitizer", "ncu"):
            (self.fakes / tool).unlink()
            if shutil.which(tool, path=f"{os.environ['PATH']}:/usr/local/cuda/bin"):
                self.skipTest(f"{tool} is installed")
        code, output = self.run_script("sanitize", "ncu")
        self.assertEqual(code, 0, output)
        self.assertEqual(self.report().count("is not there: **skipped**"), 2, self.report())


def children(pid):
    """Returns all living processes that it started, even in process groups of their own."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        if int(fields[3]) == pid:  # its session: the script leads one
            found.append(int(path.parent.name))
    return found


if __name__ == "__main__":
    unittest.main(verbosity=2)
