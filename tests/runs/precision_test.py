"""Trainings in bf16 and fp16 follow the one in fp32, on one rank and on several."""

import unittest

import numpy

import harness

# The relative rounding errors of the formats. The loss is a mean over many targets and every
# number behind it is rounded a few times: the errors do not agree, so that the loss stays within
# one such error of that in fp32. A gradient collects those of both passes, a few dozen, which add
# up like random numbers.
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
        # GPT's functions are smooth. BERT has relu: where its input is rounded to the other side of
        # zero, a whole gradient passes or not.
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
