"""What somebody does first: train on a text of their own, and mistype a key."""

import subprocess
import sys
import unittest

import h5py
import numpy

import harness

TINY = harness.SOURCE / "inputs" / "models" / "tiny.yaml"
LAPTOP = harness.SOURCE / "inputs" / "clusters" / "laptop.yaml"


class NewcomerTest(harness.RunTest):

    def test_own_text_and_plot(self):
        # Relative paths of the command line start in the working directory.
        result = harness.run(
            2, ["train", TINY, "--cluster", LAPTOP, "--out", "mine.h5", "--set", "train.steps=5",
                "--set", "train.warmup_steps=1", "--set", "data.path=text.txt"], cwd=self.folder)
        self.assert_done(result)
        with h5py.File(self.folder / "mine.h5") as file:
            self.assertTrue(numpy.isfinite(file["iterations/loss"][:]).all())
            self.assertEqual(len(file["iterations/loss"]), 5)
            self.assertEqual(file.attrs["world_size"], 2)
        subprocess.run([sys.executable, harness.SOURCE / "analysis" / "plot_training.py", "mine.h5",
                        "-o", "mine.png"], cwd=self.folder, check=True)
        self.assertEqual((self.folder / "mine.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_mistyped_key(self):
        lines = TINY.read_text().splitlines(keepends=True)
        line = next(i for i, text in enumerate(lines) if text.lstrip().startswith("hidden:"))
        column = lines[line].index("hidden") + 1
        lines[line] = lines[line].replace("hidden", "hiden")
        deck = self.folder / "typo.yaml"
        deck.write_text("".join(lines))
        result = harness.run(2, ["train", deck, "--cluster", LAPTOP, "--out", "typo.h5"],
                             cwd=self.folder)
        self.assertEqual(result.code, 2, result.stderr)
        # Beside it, the key that is missing now may be reported too.
        (report,) = [text for text in result.stderr.splitlines() if "hiden" in text]
        self.assertIn(f"{deck}:{line + 1}:{column}:", report)
        self.assertIn("model.hidden", report)


if __name__ == "__main__":
    unittest.main(verbosity=2)
