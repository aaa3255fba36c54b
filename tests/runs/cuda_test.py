"""The CUDA back end: whole runs equal those of the CPU.

HIDUP_BINARY is built for CUDA, on the shim (cuda_shim.sh) or for GPUs (jobs/gpu.sh), HIDUP_CPU_BINARY
for CPUs, and HIDUP_DEVICE is cuda. On a machine with one GPU the ranks share it.
"""

import os
import re
import unittest

import harness

OUT_OF_MEMORY, UNAVAILABLE = 4, 8

DOCTOR = harness.run(0, ["doctor"]).stdout
SHIM = "CUDA shim" in DOCTOR
# Relative, of every step's loss. A GPU's own functions round otherwise than the CPU's, which the
# shim uses.
TOLERANCE = harness.STEP_TOLERANCE if SHIM else 1e-4


def setUpModule():
    if "no GPU is found" in DOCTOR:
        raise unittest.SkipTest("no GPU is found")


class CudaTest(harness.RunTest):

    def train_on_cpu(self, *more):
        self.program = os.environ["HIDUP_CPU_BINARY"]
        one = self.train(1, "cluster.device.kind=cpu", *more)
        self.program = harness.BINARY
        return one

    def test_equals_the_cpu(self):
        cpu = self.train_on_cpu()
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.assert_equal_runs(cpu, self.train(ranks, "cluster.comm.backend=mpi"),
                                       TOLERANCE)

    def test_strategies_and_microbatches(self):
        self.write_deck(moe="{experts: 3, every: 2, router: top2, capacity_factor: 1.25}")
        cpu = self.train_on_cpu()
        for strategy in ("fsdp", "ep-fastmoe", "megatron-sp", "ps"):
            with self.subTest(strategy=strategy):
                self.assert_equal_runs(cpu, self.train(2, ["--strategy", strategy],
                                                       "train.microbatches=2"), TOLERANCE)

    def test_repetition_is_exact(self):
        one, again = self.train(2), self.train(2)
        self.assertEqual(one.loss.tolist(), again.loss.tolist())

    def launch(self, ranks, *more, **environment):
        return harness.run(ranks, self.train_args("out.h5", "train.steps=1", *more),
                           env=environment)

    def test_without_a_device(self):
        for ranks in (1, 2):
            result = self.launch(ranks, CUDA_SHIM_DEVICES="0", CUDA_VISIBLE_DEVICES="")
            self.assert_one_error(result, UNAVAILABLE, "cluster.device.kind is cuda",
                                  "no CUDA-capable device is detected")

    def test_other_kinds(self):
        result = self.launch(1, "cluster.device.kind=cpu")
        self.assert_one_error(result, UNAVAILABLE, "built for CUDA ranks only")

    def test_too_little_memory(self):
        """Said before anything is allocated, with the largest tensors."""
        result = self.launch(2, "model.hidden=96", "model.sequence=256", "cluster.device.memory=1MiB")
        self.assert_one_error(result, OUT_OF_MEMORY, "the device has 1.00 MiB", "the largest tensors")
        self.assertRegex(result.error_lines()[0], r"the plan needs [0-9.]+ MiB")

    @unittest.skipUnless(SHIM, "the shim has as many devices as it is told")
    def test_ranks_take_devices_in_turn(self):
        """The memory of a device is shared by the ranks that use it."""
        def devices(ranks, count):
            text = harness.run(ranks, ["doctor"], env={"CUDA_SHIM_DEVICES": str(count)}).stdout
            rows = re.findall(r"0000:(..):00.0 +([0-9.]+) GiB", text)
            return [int(number) for number, _ in rows], [float(size) for _, size in rows]

        numbers, (whole,) = devices(1, 2)
        self.assertEqual(numbers, [0])
        numbers, memory = devices(3, 2)
        self.assertEqual(numbers, [0, 1, 0])
        for size, expected in zip(memory, (whole / 2, whole, whole / 2)):
            self.assertAlmostEqual(size, expected, places=1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
