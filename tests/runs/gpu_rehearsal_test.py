"""jobs/gpu.sh's part test on the CUDA stand-in, as on a machine with one GPU: nothing fails, and tests
that need two GPUs are skipped. Cases that other tests also run are sampled; cases of cuda_test.py and
cuda_steps_test.py that need one GPU all run.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import harness

SAMPLE = {"GTEST_TOTAL_SHARDS": "20", "GTEST_SHARD_INDEX": "1"}
# The stand-in's threads cannot be ranks.
NOT_BUILT = ["strategies/test_rules", "strategies/test_strategies"]
BUILT = ["kernels/test_kernels", "device/test_device", "strategies/test_executor", "comm/test_comm",
         "strategies/test_strategies_mpi"]
TWO_GPUS = ["test_a_graph_of_two_ranks_gives_the_same_bits",
            "test_backend_of_ranks_with_gpus_of_their_own",
            "test_steps_between_timed_ones_have_no_times",
            "test_strategies_and_microbatches_with_nccl"]
GOLDEN = ["test_llama_by_tensor_parallelism_in_two_microbatches", "test_vit_on_one_rank",
          "test_three_experts_per_token_with_losses_of_the_router_in_three_microbatches"]
SMI = """#!/usr/bin/env bash
echo "NVIDIA H100 80GB HBM3"
"""
PYTHON = f"""#!/usr/bin/env bash
sample_of() {{  # script, tests
  [[ ${{arguments[0]}} != *"/$1" ]] || arguments+=("${{@:2}}")
}}
arguments=("$@")
sample_of precision_test.py PrecisionTest.test_repetition_is_exact
sample_of golden_test.py {" ".join("GoldenTest." + test for test in GOLDEN)}
exec "{sys.executable}" "${{arguments[@]}}"
"""


def executable(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class GpuRehearsalTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hidup-rehearsal-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("jobs", "tests", "inputs"):
            (self.folder / name).symlink_to(harness.SOURCE / name)
        (self.folder / "build").symlink_to(pathlib.Path(os.environ["HIDUP_CPU_BINARY"]).parent)
        shim = pathlib.Path(harness.BINARY).parent
        build = self.folder / "build-cuda"
        build.mkdir()
        (build / "hidup").symlink_to(shim / "hidup")
        for name in BUILT:
            program = build / "tests" / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.symlink_to(shim / "tests" / name)
        for name in NOT_BUILT:
            executable(build / "tests" / name, "#!/bin/sh\necho 'not built'\nexit 77\n")
        executable(self.folder / "fakes" / "nvidia-smi", SMI)
        executable(self.folder / "fakes" / "python3", PYTHON)

    def test_one_gpu(self):
        environment = {**os.environ, "PATH": f"{self.folder / 'fakes'}:{os.environ['PATH']}",
                       "CUDA_SHIM_DEVICES": "1", "HIDUP_LIMIT": "1100", **SAMPLE,
                       "HIDUP_REPORT": str(self.folder / "report")}
        result = subprocess.run([self.folder / "jobs" / "gpu.sh", "test"], env=environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
        report = (self.folder / "report" / "report.md").read_text()
        log = (self.folder / "report" / "test.log").read_text()
        self.assertEqual(result.returncode, 0, log)
        for word in ("**Failed**", "**Ended**", "not run**"):
            self.assertNotIn(word, report)
        self.assertEqual(report.count("Skipped, see"), len(NOT_BUILT), report)
        for test in ("golden", "precision", "cuda", "cuda_steps"):
            self.assertRegex(report, rf"(?s){test}_test.py\*\*.*? Ran [0-9]+ tests? .*?\n +OK")
        for name in BUILT:
            self.assertIn(name, log)
        skipped = re.findall(r"^(test_\w+) .*\.\.\. skipped 'this needs 2 GPUs, here is 1'", log, re.M)
        self.assertEqual(sorted(skipped), TWO_GPUS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
