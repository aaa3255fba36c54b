"""Trainings in bf16 and fp16 follow the one in fp32, on one rank and on several."""

import os
import pathlib
import unittest

import h5py
import numpy

import harness

UNAVAILABLE = 8

# The relative rounding errors of the formats. The loss is a mean over many targets, and every number in it is
# rounded a few times independently, so it stays within one such error of that in fp32. A gradient collects
# the errors of both passes, a few dozen, which add up like random numbers.
ROUNDING = {"bf16": 2**-8, "fp16": 2**-11}
ROUNDINGS_OF_A_GRADIENT = 16


class PrecisionTest(harness.RunTest):

    def assert_follows(self, one, other, rounding):
        numpy.testing.assert_allclose(other.loss, one.loss, rtol=rounding)
        bound = ROUNDINGS_OF_A_GRADIENT * rounding
        numpy.testing.assert_allclose(other.grad_norm, one.grad_norm, rtol=bound)
        self.assertEqual(one.gradients.keys(), other.gradients.keys())
        for name, expected in one.gradients.items():
            difference = numpy.abs(expected - other.gradients[name]).max()
            self.assertLessEqual(difference / numpy.abs(expected).max(), bound, name)

    def test_follows_fp32(self):
        # GPT's functions are smooth. BERT's relu passes a whole gradient or none if its input is rounded
        # across zero.
        gpt = "model.family=gpt"
        one = self.train(1, gpt)
        for precision, rounding in ROUNDING.items():
            for ranks, strategy in ((1, "dp"), (2, "fsdp"), (3, "megatron")):
                with self.subTest(precision=precision, strategy=strategy):
                    other = self.train(ranks, gpt, f"model.precision={precision}",
                                       ["--strategy", strategy])
                    self.assertGreater(numpy.abs(other.loss - one.loss).max(), 0)
                    self.assert_follows(one, other, rounding)

    def test_repetition_is_exact(self):
        for precision in ROUNDING:
            one, again = (self.train(2, f"model.precision={precision}", steps=5) for _ in range(2))
            numpy.testing.assert_array_equal(one.loss, again.loss)
            numpy.testing.assert_array_equal(one.grad_norm, again.grad_norm)

    @unittest.skipIf(harness.DEVICE != "cpu", "of CPUs")
    def test_bf16_by_the_instructions_of_the_cpu(self):
        if (os.environ.get("ONEDNN_MAX_CPU_ISA", "ALL") != "ALL"
                or "avx512_bf16" not in pathlib.Path("/proc/cpuinfo").read_text()):
            self.skipTest("this CPU has none for bf16, or may not use them")
        one = self.train(1, "model.family=gpt")
        for ranks in (1, 2):
            other = self.train(ranks, "model.family=gpt", "model.precision=bf16",
                               "cluster.device.bf16=native")
            self.assert_follows(one, other, ROUNDING["bf16"])
            with h5py.File(other.path) as file:
                self.assertRegex(file.attrs["arithmetic"], r"^kernels for \S+, .* bf16 by .*bf16")

    @unittest.skipIf(harness.DEVICE != "cpu", "of CPUs")
    def test_bf16_without_such_instructions(self):
        older = {"ONEDNN_MAX_CPU_ISA": "AVX2"}
        native = self.train_args("run.h5", "model.precision=bf16", "cluster.device.bf16=native")
        self.assert_one_error(harness.run(2, native, env=older), UNAVAILABLE,
                              "cluster.device.bf16 is native", "no instructions for bf16")
        auto = self.train_args("run.h5", "model.precision=bf16", "train.steps=2")
        self.assert_done(harness.run(2, auto, env=older))
        with h5py.File(self.folder / "run.h5") as file:
            self.assertEqual(file.attrs["arithmetic"], "kernels for AVX2, products of bf16 by f32")


if __name__ == "__main__":
    unittest.main(verbosity=2)
