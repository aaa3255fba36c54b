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
        """By hand: 2 flops per weight of a product and token, the scores and their product with the
        values, and twice as much backward."""
        text, wall = self.summary(2, "model.vocab=300", "cluster.device.flops=2GFLOPS",
                                  "model.dropout=0")
        model, train = harness.MODEL, harness.TRAIN
        hidden, sequence = model["hidden"], model["sequence"]
        weights = model["layers"] * (4 * hidden**2 + 2 * hidden * model["ffn"]) + 300 * hidden
        attention = model["layers"] * 2 * 2 * sequence * hidden
        flops = 3 * train["batch"] * sequence * (2 * weights + attention)
        found = re.search(r"model flops utilization ([0-9.]+) % \(([0-9.]+) Gflop a step, 4 Gflop/s", text)
        self.assertIsNotNone(found, text)
        self.assertAlmostEqual(float(found[2]) / (1e-9 * flops), 1.0, places=3)
        self.assertAlmostEqual(float(found[1]), 100 * flops / (wall * 2 * 2e9), delta=0.051)

    def test_of_a_causal_mask_half_is_counted(self):
        flops = []
        for family in ("gpt", "bert"):
            self.write_deck(family=family, vocab=300)
            text, _ = self.summary(1, "cluster.device.flops=1GFLOPS", "train.steps=1")
            flops.append(1e9 * float(re.search(r"\(([0-9.]+) Gflop a step", text)[1]))
        model = harness.MODEL
        sequence = model["sequence"]
        masked = model["layers"] * 4 * model["hidden"] * (sequence - (sequence + 1) / 2)
        self.assertAlmostEqual((flops[1] - flops[0]) /
                               (3 * harness.TRAIN["batch"] * sequence * masked), 1.0, places=1)

    def test_without_a_peak_there_is_no_utilization(self):
        text, _ = self.summary(1, "train.steps=1")
        self.assertIn("tokens/s", text)
        self.assertNotIn("utilization", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
