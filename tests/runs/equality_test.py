"""A step on several ranks equals the step on one: losses, and every gradient.

The batch does not divide by the ranks, dropout is on and gradients are clipped, so
that a random number or a sum that depends on the rank count shows.
"""

import typing
import unittest

import h5py
import numpy

import harness

STEP_TOLERANCE = 2e-5  # relative, loss and gradient norm of every step
GRADIENT_TOLERANCE = 1e-4  # largest difference over largest value, every tensor


class Trained(typing.NamedTuple):
    loss: numpy.ndarray  # [steps]
    grad_norm: numpy.ndarray  # [steps]
    gradients: dict  # parameter -> gradient of step 1


class EqualityTest(harness.RunTest):

    def train(self, ranks, *settings):
        name = f"run{len(list(self.folder.iterdir()))}"
        out = self.folder / f"{name}.h5"
        gradients = self.folder / f"{name}-gradients.h5"
        self.assert_done(harness.run(
            ranks, self.train_args(out.name, ["--dump-gradients", gradients], *settings)))
        with h5py.File(out) as file:
            self.assertEqual(file.attrs["world_size"], ranks)
            loss = file["iterations/loss"][:]
            grad_norm = file["iterations/grad_norm"][:]
        self.assertEqual(len(loss), harness.TRAIN["steps"])
        with h5py.File(gradients) as file:
            found = {key: file[key][:].astype(numpy.float64) for key in file}
        self.assertGreater(len(found), 10)
        return Trained(loss, grad_norm, found)

    def assert_equal_runs(self, one, other):
        numpy.testing.assert_allclose(other.loss, one.loss, rtol=STEP_TOLERANCE)
        numpy.testing.assert_allclose(other.grad_norm, one.grad_norm, rtol=STEP_TOLERANCE)
        self.assertEqual(one.gradients.keys(), other.gradients.keys())
        for name, expected in one.gradients.items():
            self.assertEqual(expected.shape, other.gradients[name].shape, name)
            size = numpy.abs(expected).max()
            self.assertGreater(size, 0, f"{name} has no gradient at all")
            difference = numpy.abs(expected - other.gradients[name]).max() / size
            self.assertLessEqual(difference, GRADIENT_TOLERANCE, name)

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
        self.assert_equal_runs(self.train(1), self.train(4, mesh))

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
