"""One job over GPUs and CPUs: two builds under one mpirun equal a run on CPU ranks alone.

HIDUP_BINARY is built for CUDA (on the stand-in in ctest), HIDUP_CPU_BINARY for CPUs.
"""

import os
import unittest

import harness

USAGE, UNAVAILABLE = 2, 8
EXPERTS = "{experts: 3, every: 2, router: top2, capacity_factor: 1.25}"
MIXED = "cluster.device.kind=auto"
CPU = os.environ["HIDUP_CPU_BINARY"]


class MixedTest(harness.RunTest):

    def args(self, ranks, args, other=None):
        """Returns mpirun's arguments behind -n 1 PROGRAM: rank 0 has a GPU, the others do not."""
        other = args if other is None else other
        return [*args, ":", "-n", str(ranks - 1), CPU, *other]

    def launch(self, args, other=None, ranks=2, **environment):
        return harness.run(1, self.args(ranks, args, other), env=environment)

    def assert_equal_losses(self, ranks, *more):
        more = (*more, "train.steps=4", ["--overwrite"])
        result = harness.run(ranks, self.train_args("cpu.h5", "cluster.device.kind=cpu", *more),
                             program=CPU)
        self.assert_done(result)
        result = self.launch(self.train_args("mixed.h5", MIXED, *more), ranks=ranks)
        self.assert_done(result)
        one, other = (harness.losses(self.folder / name) for name in ("cpu.h5", "mixed.h5"))
        self.assertEqual(len(one), 4)
        harness.numpy.testing.assert_allclose(other, one, rtol=harness.STEP_TOLERANCE)
        return result

    def test_equals_cpu_ranks(self):
        self.write_deck(moe=EXPERTS)
        for ranks, more in ((2, ()), (3, (["--strategy", "megatron"],)),
                            (2, (["--strategy", "search"], "cluster.profile=auto"))):
            with self.subTest(ranks=ranks, more=more):
                result = self.assert_equal_losses(ranks, *more)
                self.assertIn("collectives: mpi, because the program of rank", result.stderr)
        with harness.h5py.File(self.folder / "mixed.h5") as file:
            self.assertRegex(file.attrs["device"], r".* \(rank 0\), .* \(rank 1\)$")

    def test_doctor_lists_the_builds(self):
        result = self.launch(["doctor", *self.train_args("run.h5", MIXED)[1:]])
        self.assert_done(result)
        self.assertIn("built for cluster.device.kind cuda (rank 0), cpu (rank 1)", result.stdout)
        self.assertNotIn("but rank 0", result.stdout)
        result = self.launch(["doctor", *self.train_args("run.h5", "cluster.device.kind=cuda")[1:]])
        self.assertRegex(result.stdout, r"what looks wrong\n(.*\n)*  rank 1 .*CPU ranks only")

    def test_what_cannot_run(self):
        args = self.train_args("run.h5", MIXED, "train.steps=1")
        nccl = self.train_args("run.h5", MIXED, "train.steps=1", "cluster.comm.backend=nccl")
        self.assert_one_error(self.launch(nccl), UNAVAILABLE, "cluster.comm.backend is nccl",
                              "the program of rank 1 was built without NCCL")
        other = self.train_args("run.h5", MIXED, "train.steps=2")
        self.assert_one_error(self.launch(args, other), USAGE, "rank 1 started with train.steps=2")
        self.assert_one_error(self.launch(args, [*args, "--unknown"]), USAGE, "--unknown")
        self.assert_one_error(self.launch(args, CUDA_SHIM_DEVICES="0", CUDA_VISIBLE_DEVICES=""),
                              UNAVAILABLE, "no GPU is found")


if __name__ == "__main__":
    unittest.main(verbosity=2)
