"""The CUDA back end on the shim (preset cuda-shim): whole runs equal those of the CPU.

cuda_shim.sh runs it with HIDUP_BINARY, that of the shim, HIDUP_CPU_BINARY, and HIDUP_DEVICE=cuda.
"""

import os
import re
import unittest

import harness

OUT_OF_MEMORY, UNAVAILABLE = 4, 8


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
                self.assert_equal_runs(cpu, self.train(ranks, "cluster.comm.backend=mpi"))

    def test_strategies_and_microbatches(self):
        self.write_deck(moe="{experts: 3, every: 2, router: top2, capacity_factor: 1.25}")
        cpu = self.train_on_cpu()
        for strategy in ("fsdp", "ep-fastmoe", "megatron-sp", "ps"):
            with self.subTest(strategy=strategy):
                self.assert_equal_runs(cpu, self.train(2, ["--strategy", strategy],
                                                       "train.microbatches=2"))

    def test_repetition_is_exact(self):
        one, again = self.train(2), self.train(2)
        self.assertEqual(one.loss.tolist(), again.loss.tolist())

    def launch(self, ranks, *more, **environment):
        return harness.run(ranks, self.train_args("out.h5", "train.steps=1", *more),
                           env=environment)

    def test_without_a_device(self):
        for ranks in (1, 2):
            result = self.launch(ranks, CUDA_SHIM_DEVICES="0")
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

    def test_ranks_take_devices_in_turn(self):
        """The memory of a device is shared by the ranks that use it."""
        def memory(ranks, devices):
            result = self.launch(ranks, "model.hidden=6144", "model.ffn=20000000",
                                 CUDA_SHIM_DEVICES=str(devices))
            self.assertEqual(result.code, OUT_OF_MEMORY, result.stderr)
            size, unit = re.search(r"the device has ([0-9.]+) (.iB)", result.stderr).groups()
            return float(size) * {"MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[unit]

        alone = memory(1, 1)
        self.assertAlmostEqual(memory(2, 1) / alone, 0.5, places=2)
        self.assertAlmostEqual(memory(2, 2) / alone, 1.0, places=2)
        # Rank 2 is again on device 0, and both say the same; one error is printed: rank 0's.
        self.assertAlmostEqual(memory(3, 2) / alone, 0.5, places=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
