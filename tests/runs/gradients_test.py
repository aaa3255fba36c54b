"""Gradients that are sent in 16 bits: how near their runs are to one rank's, and what is exact."""

import unittest

import h5py
import numpy

import harness

USAGE = 2

BF16 = "train.gradients=bf16"
TWO_AXES = ("cluster.mesh=[{name: node, size: 2, bandwidth: 1GB/s}, "
            "{name: core, size: 2, bandwidth: 9GB/s}]")

# A summand that is sent is rounded by at most 2^-8 of it. Losses are means over many targets, and
# follow from sums over many elements, whose errors do not agree: over 20 steps they differ by at
# most 7e-5 here, gradient norms by 1.2e-3, and gradients of step 1 by 6.4e-3 of the largest.
LOSS_TOLERANCE = 2**-12
NORM_TOLERANCE = 2**-8
GRADIENT_TOLERANCE = 4 * 2**-8


class GradientsTest(harness.RunTest):

    def assert_near(self, one, other):
        numpy.testing.assert_allclose(other.loss, one.loss, rtol=LOSS_TOLERANCE)
        numpy.testing.assert_allclose(other.grad_norm, one.grad_norm, rtol=NORM_TOLERANCE)
        for name, expected in one.gradients.items():
            difference = numpy.abs(expected - other.gradients[name]).max()
            self.assertLessEqual(difference, GRADIENT_TOLERANCE * numpy.abs(expected).max(), name)

    def assert_same(self, one, other):
        numpy.testing.assert_array_equal(one.loss, other.loss)
        numpy.testing.assert_array_equal(one.grad_norm, other.grad_norm)
        for name, expected in one.gradients.items():
            numpy.testing.assert_array_equal(expected, other.gradients[name], name)

    def sums(self, run):
        """Bytes of sums of gradients, in the order of the program, and lines of all that is sent in
        fewer bits."""
        with h5py.File(run.path) as file:
            names = file["program/name"].asstr()[:]
            collectives = file["program/collective"].asstr()[:]
            sizes = file["program/bytes"][:]
            text = file["program/text"].asstr()[()]
        sums = [size for name, collective, size in zip(names, collectives, sizes)
                if name.startswith("gradients.")
                and collective in ("all_reduce", "reduce_scatter")]
        return numpy.array(sums), [line for line in text.splitlines() if "sent=" in line]

    def test_near_one_rank(self):
        one = self.train(1)
        for ranks, strategy, more in ((2, "dp", []), (3, "dp", ["train.microbatches=2"]),
                                      (3, "fsdp", []), (4, "dp", [TWO_AXES]),
                                      (4, "hsdp", [TWO_AXES, "train.bucket=4KiB"])):
            with self.subTest(ranks=ranks, strategy=strategy):
                wide = self.train(ranks, ["--strategy", strategy], *more)
                near = self.train(ranks, ["--strategy", strategy], BF16, *more)
                self.assert_equal_runs(one, wide)
                self.assert_near(one, near)
                self.assertGreater(numpy.abs(near.loss - one.loss).max(), 0)
                self.assertFalse(self.sums(wide)[1])
                wide_bytes, near_bytes = self.sums(wide)[0], self.sums(near)[0]
                self.assertEqual(len(near_bytes), len(self.sums(near)[1]))
                numpy.testing.assert_array_equal(2 * near_bytes, wide_bytes)
                self.assert_same(near, self.train(ranks, ["--strategy", strategy], BF16, *more))

    def test_along_two_axes_at_once(self):
        rates = [TWO_AXES, "cluster.device.flops=1TFLOPS"]
        one = self.train(1)
        for strategy in "dp", "fsdp", "search":
            near = self.train(4, ["--strategy", strategy], BF16, *rates)
            self.assert_near(one, near)
            lines = self.sums(near)[1]
            self.assertTrue(any("inside=" in line for line in lines) or strategy == "search", lines)

    def test_as_the_model(self):
        wide = self.train(2)
        self.assert_same(wide, self.train(2, "train.gradients=model"))
        self.assert_same(wide, self.train(2, "train.gradients=f32"))
        for precision in "bf16", "fp16":
            model = ["model.family=gpt", f"model.precision={precision}"]
            near = self.train(2, "train.gradients=model", *model)
            kind = precision.replace("fp", "f")
            self.assertTrue(all(f"sent={kind}" in line for line in self.sums(near)[1]))
            self.assert_near(self.train(2, *model), near)
            if precision == "bf16":
                self.assert_same(near, self.train(2, BF16, *model))

    def test_emulated(self):
        """The same bits at the predicted times."""
        cluster = ("cluster.mesh=[{name: ranks, size: auto, latency: 50us, bandwidth: 50MB/s}]",
                   "cluster.device.flops=500MFLOPS", BF16)
        real = self.train(2, *cluster)
        emulated = self.train(2, *cluster, "cluster.emulate=on")
        self.assert_same(real, emulated)
        with h5py.File(emulated.path) as file:
            numpy.testing.assert_array_equal(file["iterations/wall_s"][:],
                                             file["strategy"].attrs["predicted_iteration_s"])

    def test_goes_on(self):
        whole = self.train(2, BF16)
        args = self.train_args("run.h5", BF16, "train.steps=12", "train.checkpoint.every_steps=8")
        self.assert_done(harness.run(2, args))
        args = self.train_args("run.h5", BF16, ["--resume", "auto"])
        self.assert_done(harness.run(2, args))
        numpy.testing.assert_array_equal(harness.losses(self.folder / "run-2.h5"), whole.loss[12:])
        # The other type is no other training.
        args = self.train_args("other.h5", ["--resume", self.folder / "run.ckpt" /
                                            "step-00000008.ckpt.h5"])
        self.assert_done(harness.run(3, args))
        numpy.testing.assert_allclose(harness.losses(self.folder / "other.h5"), whole.loss[8:],
                                      rtol=LOSS_TOLERANCE)

    def test_wrong_value(self):
        self.assert_one_error(harness.run(0, self.train_args("run.h5", "train.gradients=bf61")),
                              USAGE, "train.gradients: expected one of f32, bf16, model, found bf61: "
                              "did you mean bf16?")


if __name__ == "__main__":
    unittest.main(verbosity=2)
