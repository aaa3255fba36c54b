"""Losses, gradient norms and gradients of tests/golden/dense.yaml, against PyTorch's."""

import subprocess
import sys
import unittest

import harness

GOLDEN = harness.SOURCE / "tests" / "golden"


class GoldenTest(harness.RunTest):

    def compare(self, ranks):
        run, gradients = self.folder / "run.h5", self.folder / "gradients.h5"
        self.assert_done(harness.run(
            ranks, ["train", GOLDEN / "dense.yaml", "--cluster", self.folder / "cluster.yaml",
                    "--out", run, "--dump-gradients", gradients]))
        check = subprocess.run([sys.executable, GOLDEN / "check_golden.py", GOLDEN / "dense.json",
                                run, gradients], stdout=subprocess.PIPE, text=True)
        self.assertEqual(check.returncode, 0, check.stdout)

    def test_one_rank(self):
        self.compare(1)

    def test_two_ranks(self):
        self.compare(2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
