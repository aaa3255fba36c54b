"""What a run prints when it ends."""

import re
import unittest

import h5py

import harness


class ReportTest(harness.RunTest):

    def summary(self, ranks, *more):
        """(what was printed, the mean time per step in the timing file in seconds)"""
        out = self.folder / f"run{len(list(self.folder.iterdir()))}.h5"
        result = harness.run(ranks, self.train_args(out.name, *more))
        self.assert_done(result)
        with h5py.File(out) as file:
            return result.stdout, file["iterations/wall_s"][:].mean()

    def test_model_flops_utilization(self):
        """By hand: 2 flops per weight of a product and token; the scores and their product with the
        values, of (sequence + 1) / 2 keys per query; and twice as much backward."""
        text, wall = self.summary(2, "model.vocab=300", "cluster.device.flops=2GFLOPS",
                                  "model.dropout=0")
        model, train = harness.MODEL, harness.TRAIN
        hidden, sequence = model["hidden"], model["sequence"]
        weights = model["layers"] * (4 * hidden**2 + 2 * hidden * model["ffn"]) + 300 * hidden
        attention = model["layers"] * 2 * 2 * (sequence + 1) / 2 * hidden
        flops = 3 * train["batch"] * sequence * (2 * weights + attention)
        found = re.search(r"model flops utilization ([0-9.]+) % \(([0-9.]+) Gflop a step, 4 Gflop/s", text)
        self.assertIsNotNone(found, text)
        self.assertAlmostEqual(float(found[2]) / (1e-9 * flops), 1.0, places=3)
        self.assertAlmostEqual(float(found[1]), 100 * flops / (wall * 2 * 2e9), delta=0.051)

    def test_without_a_peak_there_is_no_utilization(self):
        text, _ = self.summary(1, "train.steps=1")
        self.assertIn("tokens/s", text)
        self.assertNotIn("utilization", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
