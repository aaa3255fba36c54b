"""A newcomer's first steps: train on an own text, resume, look at the model, mistype a key."""

import signal
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
        subprocess.run([sys.executable, harness.SOURCE / "analysis", "loss", "mine.h5",
                        "-o", "mine.png"], cwd=self.folder, check=True)
        self.assertEqual((self.folder / "mine.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_go_on_evaluate_sample(self):
        """A stopped run resumes with more ranks; its model is evaluated and sampled."""
        text = ["--set", "data.path=text.txt", "--set", "train.warmup_steps=1"]
        decks = [TINY, "--cluster", LAPTOP]
        train = ["train", *decks, "--out", "mine.h5", *text]
        with harness.Launch(2, [*train, "--set", "train.steps=100000"], cwd=self.folder) as launch:
            launch.wait_for_rows(self.folder / "mine.h5", 3)
            launch.signal(signal.SIGUSR1)
            self.assertEqual(launch.wait(harness.SOON).code, 7)
        (stopped,) = (self.folder / "mine.ckpt").iterdir()
        steps = int(stopped.name[5:13]) + 4
        self.assert_done(harness.run(3, [*train, "--resume", "auto", "--set",
                                         f"train.steps={steps}"], cwd=self.folder))
        resume = ["--resume", f"mine.ckpt/step-{steps:08}.ckpt.h5", *text]
        found = harness.run(2, ["evaluate", *decks, *resume], cwd=self.folder)
        self.assert_done(found)
        self.assertRegex(found.stdout, "loss .*\nperplexity .*\ntokens ")
        sample = harness.run(0, ["generate", TINY, *resume, "--prompt", "the rank", "--tokens", 20],
                             cwd=self.folder)
        self.assert_done(sample)
        self.assertEqual(len(sample.stdout), len("the rank") + 20)

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
        # The missing right key may be reported, too.
        (report,) = [text for text in result.stderr.splitlines() if "hiden" in text]
        self.assertIn(f"{deck}:{line + 1}:{column}:", report)
        self.assertIn("model.hidden", report)


if __name__ == "__main__":
    unittest.main(verbosity=2)
