"""A step on several ranks equals the step on one: losses, and every gradient.

The batch does not divide by the ranks, dropout is on and gradients are clipped, so that a random
number or a sum that depends on the number of ranks makes a difference.
"""

import unittest

import numpy

import harness


class EqualityTest(harness.RunTest):

    def test_rank_counts(self):
        one = self.train(1)
        self.assertLess(one.loss[-5:].mean(), one.loss[0], "the model does not learn")
        for ranks in (2, 3, 4):
            with self.subTest(ranks=ranks):
                self.assert_equal_runs(one, self.train(ranks))
        with self.subTest("many buckets"):
            self.assert_equal_runs(one, self.train(2, "train.bucket=4KiB"))

    def test_ranks_that_hold_nothing(self):
        self.assert_equal_runs(self.train(1, "train.batch=2"), self.train(3, "train.batch=2"))

    def test_mesh_of_two_axes(self):
        mesh = "cluster.mesh=[{name: node, size: 2}, {name: core, size: auto}]"
        one = self.train(1)
        self.assert_equal_runs(one, self.train(4, mesh))
        # The slower axis is the last one here; the mesh has it first (mesh_of()).
        swapped = ("cluster.mesh=[{name: core, size: 2, bandwidth: 9GB/s}, "
                   "{name: node, size: 2, bandwidth: 1GB/s}]")
        for strategy in "fsdp", "ps", "core=ps,node=dp", "search":
            self.assert_equal_runs(one, self.train(4, swapped, "cluster.device.flops=1TFLOPS",
                                                   ["--strategy", strategy]))

    def test_what_is_computed_again_is_exact(self):
        one = self.train(2, ["--strategy", "fsdp-kept"])
        for level in "cheap", "block":
            again = self.train(2, ["--strategy", "fsdp"], f"train.recompute={level}")
            numpy.testing.assert_array_equal(one.loss, again.loss, level)
            numpy.testing.assert_array_equal(one.grad_norm, again.grad_norm, level)
            for name, expected in one.gradients.items():
                numpy.testing.assert_array_equal(expected, again.gradients[name], name)

    def test_groups_of_the_batch(self):
        one = self.train(1)
        for strategy in "dp", "fsdp":
            self.assert_equal_runs(one, self.train(2, ["--strategy", strategy],
                                                   "train.accumulate=3"))

    def test_repetition_is_exact(self):
        one = self.train(2)
        again = self.train(2)
        numpy.testing.assert_array_equal(one.loss, again.loss)
        numpy.testing.assert_array_equal(one.grad_norm, again.grad_norm)
        for name, expected in one.gradients.items():
            numpy.testing.assert_array_equal(expected, again.gradients[name], name)

    def test_seed_matters(self):
        """Guards the tests above against runs that do not depend on their input."""
        one = self.train(1)
        other = self.train(1, "train.seed=2")
        self.assertGreater(numpy.abs(one.loss - other.loss).max(), 1e-3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
