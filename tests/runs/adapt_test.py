"""Runs that change the shares of their ranks (train.adapt)."""

import unittest

import h5py
import numpy

import emulation_test
import harness

RANKS = 3


class AdaptTest(emulation_test.EmulatedRun):

    def run_adapting(self, out, paces, *more, steps=200, ranks=RANKS):
        """Trains in emulated time on equal devices, of which some have a course of paces [(seconds, pace)]."""
        def device(rank):
            trace = ", ".join(f"{{for: {seconds}, pace: {pace}}}" for seconds, pace in paces.get(rank, []))
            return "{flops: 10GFLOPS" + (f", pace_trace: [{trace}]" if trace else "") + "}"
        devices = ", ".join(device(rank) for rank in range(ranks))
        return self.run_train(ranks, out, f"cluster.devices=[{devices}]",
                              "cluster.mesh.ranks.bandwidth=200MB/s", "train.batch=12",
                              "cluster.emulate_dilation=0.5", *more, steps=steps)

    def read(self, out):
        with h5py.File(self.folder / out) as file:
            adapt = {name: data[:] for name, data in file["adapt"].items()} if "adapt" in file else None
            return file["iterations/wall_s"][:], file["iterations/loss"][:], adapt

    def changes(self, adapt):
        """Returns the first step of each change, the number of steps to its verdict, and the verdict."""
        return [(int(step), int(last - step), bool(kept)) for step, last, kept in
                zip(adapt["step"], adapt["last"], adapt["kept"])]

    def test_a_slow_rank_gets_a_smaller_share(self):
        """Rank 2 computes at half the pace for a while. Other shares hold within 100 steps; equal ones come
        back when the rank is fast again."""
        for strategy, fast, slow in [("dp", 100, 300), ("fsdp", 100, 300), ("megatron", 180, 500)]:
            paces = {2: [(f"{fast}ms", 1), (f"{slow}ms", 0.5), ("1h", 1)]}
            with self.subTest(strategy=strategy):
                more = (["--strategy", strategy, "--overwrite"], "model.heads=6", "model.hidden=12",
                        "train.checkpoint.every_steps=90")
                self.run_adapting("off.h5", paces, *more, steps=260)
                result = self.run_adapting("on.h5", paces, *more, "train.adapt=shares", steps=260)
                before, losses, none = self.read("off.h5")
                now, changed, adapt = self.read("on.h5")
                self.assertIsNone(none)
                slow = int(numpy.argmax(before > 1.2 * before[0])) + 1
                self.assertEqual(len(self.changes(adapt)), 2, result.stderr)
                (first, measured, kept), (back, _, kept_too) = self.changes(adapt)
                self.assertTrue(kept and kept_too)
                self.assertLess(first - slow, 100)
                self.assertEqual(measured, 6)
                equal, share = adapt["shares_at_start"], adapt["shares"][0]
                self.assertLess(share[2], 0.7 * equal[2])
                numpy.testing.assert_allclose(adapt["shares"][1], equal)
                self.assertAlmostEqual(share.sum(), 1)
                self.assertLess(adapt["after_s"][0], 0.9 * adapt["before_s"][0])
                self.assertEqual(now[first], adapt["after_s"][0])
                self.assertEqual(now[back], before[0])
                self.assertRegex(result.stderr, r"adapt: new shares are predicted to take .* instead of ")
                self.assertRegex(result.stderr, rf"adapt: since step {first} the ranks compute .* stay\n")
                numpy.testing.assert_allclose(losses[:first + 20], changed[:first + 20], rtol=2e-5)
                numpy.testing.assert_allclose(losses, changed, rtol=1e-3)

    def test_a_change_that_does_harm_is_undone(self):
        """Rank 2 is slow until the change; then rank 0 is, which has the larger share now."""
        paces = {2: [("180ms", 1), ("358ms", 0.5), ("1h", 1)], 0: [("538ms", 1), ("1h", 0.2)]}
        self.run_adapting("off.h5", paces, steps=260)
        result = self.run_adapting("on.h5", paces, "train.adapt=shares", steps=260)
        before, losses, _ = self.read("off.h5")
        now, changed, adapt = self.read("on.h5")
        (first, measured, kept), = self.changes(adapt)
        self.assertFalse(kept)
        self.assertEqual(measured, 6)
        self.assertRegex(result.stderr, rf"are undone, and others tried after step {first + 6 + 500} at the earliest\n")
        numpy.testing.assert_array_equal(now[first + 20:], before[first + 20:])
        self.assertLess(now.sum(), 1.02 * before.sum())
        numpy.testing.assert_allclose(losses, changed, rtol=2e-5)

    def test_a_rank_that_flutters_causes_few_changes(self):
        paces = {2: [("180ms", 1)] + 20 * [("400ms", 0.5), ("400ms", 1)]}
        self.run_adapting("off.h5", paces, steps=600)
        self.run_adapting("on.h5", paces, "train.adapt=shares", steps=600)
        before, _, _ = self.read("off.h5")
        now, _, adapt = self.read("on.h5")
        self.assertEqual(len(self.changes(adapt)), 2)
        self.assertLess(now.sum(), 1.02 * before.sum())

    def test_without_times_there_is_nothing_to_plan_with(self):
        self.write_cluster(flops="memory: 1GiB", emulate="off")
        result = self.run_train(2, "run.h5", "train.adapt=shares", code=emulation_test.USAGE)
        self.assert_one_error(result, emulation_test.USAGE, "train.adapt rests on it")


if __name__ == "__main__":
    unittest.main(verbosity=2)
