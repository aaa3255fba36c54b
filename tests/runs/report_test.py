"""The output at the end of a run."""

import json
import re
import subprocess
import unittest

import h5py
import numpy

import harness


class ReportTest(harness.RunTest):

    def summary(self, ranks, *more):
        """Returns (the output, the mean time per step in the timing file in seconds)."""
        out = self.folder / f"run{len(list(self.folder.iterdir()))}.h5"
        result = harness.run(ranks, self.train_args(out.name, *more))
        self.assert_done(result)
        with h5py.File(out) as file:
            return result.stdout, file["iterations/wall_s"][:].mean()

    def test_model_flops_utilization(self):
        """The expected flops: 2 per weight of a product and token; scores and their product with the values,
        of (sequence + 1) / 2 keys per query; and twice as many backward."""
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

    def analysis(self, *words):
        result = subprocess.run(["/usr/bin/python3", "-m", "analysis", *words], cwd=harness.SOURCE,
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_the_overlap_ratio_is_one_number(self):
        """train, summary, report and explain --measured give the same ratio; and again after a change of the
        file's times."""
        out = str(self.folder / "run.h5")
        result = harness.run(3, self.train_args("run.h5", "train.steps=6", "train.microbatches=2",
                                                ["--strategy", "fsdp"], "cluster.profile=auto"))
        self.assert_done(result)
        printed = re.search(r"communication (\S+) (.?s), of it exposed (\S+) (.?s) .*\n"
                            r" *overlap ratio ([0-9.]+) %", result.stdout)
        self.assertIsNotNone(printed, result.stdout)
        units = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
        comm, exposed = (float(printed[at]) * units[printed[at + 1]] for at in (1, 3))
        self.assertAlmostEqual(float(printed[5]), 100 * (1 - exposed / comm), delta=0.6)
        self.assertAlmostEqual(self.overlap_of(out), float(printed[5]) / 100, delta=0.00051)
        self.analysis("report", out)
        with open(out.replace(".h5", "-report.html"), encoding="utf-8") as page:
            self.assertRegex(page.read(), rf"overlap ratio</td>\s*<td[^>]*>{printed[5]}%<")

        random = numpy.random.default_rng(1)
        with h5py.File(out, "r+") as file:
            times = random.uniform(0.01, 0.02, (2, *file["ranks/comm_s"].shape))
            file["ranks/compute_s"][:], file["ranks/comm_s"][:] = times
            file["ranks/exposed_comm_s"][:] = times[1] * random.uniform(size=times[1].shape)
        self.overlap_of(out)

    def overlap_of(self, path):
        """Returns the ratio and checks that all programs that read timing files give the same."""
        run = json.loads(self.analysis("summary", "--json", path))["runs"][0]
        self.assertAlmostEqual(run["overlap"], 1 - run["exposed_comm_s"] / run["comm_s"])
        explained = harness.run(0, ["explain", "--measured", path, "--json"])
        self.assert_done(explained)
        measured = json.loads(explained.stdout)["step"]["measured"]
        for name in ("compute_s", "comm_s", "exposed_comm_s"):
            self.assertAlmostEqual(measured[name], run[name], places=12)
        shown = f"{run['overlap']:.1%}"
        self.assertRegex(self.analysis("summary", path), rf"overlap ratio +{shown}\n")
        return run["overlap"]

    def test_without_a_peak_there_is_no_utilization(self):
        text, _ = self.summary(1, "train.steps=1")
        self.assertIn("tokens/s", text)
        self.assertNotIn("utilization", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
