"""Models of images: files and synthetic images, learning, evaluation, and equality over ranks."""

import json
import subprocess
import sys
import unittest

import h5py
import numpy

import harness

USAGE = 2
VIT = dict(family="vit", layers=2, hidden=24, heads=3, ffn=40, dropout=0.1)


class ImagesTest(harness.RunTest):

    def write_deck(self, **model):
        self.deck.write_text(
            harness.write_section("model", {**VIT, **model}) +
            harness.write_section("data", dict(kind="images")) +
            harness.write_section("train", {**harness.TRAIN, "clip_norm": 8}))

    def synthetic_file(self, first, count):
        """Writes synthetic images of the decks' seed in the form of CIFAR-10's files."""
        path = self.folder / "images.bin"
        subprocess.run([sys.executable, harness.SOURCE / "tests" / "golden" / "images.py",
                        str(harness.TRAIN["seed"]), str(first), str(count), path], check=True)
        self.assertEqual(path.stat().st_size, count * 3073)
        return path

    def test_a_file_holds_what_was_made(self):
        """The last synthetic images are equal from a file and from their numbers."""
        path = self.synthetic_file(50000 - 60, 60)
        checkpoint = self.checkpoint("train.steps=1")
        made = self.evaluate(checkpoint, "data.validation=0.0012")
        read = self.evaluate(checkpoint, f"data.validation={path}")
        self.assertEqual(made, read)
        self.assertEqual(read["images"], 60)
        # Training and validation get half of the file each.
        half = self.evaluate(checkpoint, f"data.path={path}", "data.validation=0.5")
        self.assertEqual(half["images"], 30)
        self.assertEqual(len(self.train(2, f"data.path={path}", steps=15).loss), 15)

    def checkpoint(self, *more):
        out = self.folder / "trained.h5"
        self.assert_done(harness.run(2, self.train_args(
            out.name, "train.checkpoint.every_steps=1000", *more)))
        return max(out.with_suffix(".ckpt").iterdir())

    def evaluate(self, checkpoint, *more, ranks=2):
        args = ["evaluate", self.deck, "--cluster", self.folder / "cluster.yaml",
                "--resume", checkpoint, "--json"]
        for setting in more:
            args += ["--set", setting]
        result = harness.run(ranks, args)
        self.assert_done(result)
        return json.loads(result.stdout)

    def test_learns_the_rule(self):
        """The accuracy on images outside the training data rises from that of chance, 10 %, to over half."""
        checkpoint = self.checkpoint("train.steps=200", "train.batch=16", "data.validation=0.01",
                                     "train.validate_every=100")
        with h5py.File(self.folder / "trained.h5") as file:
            accuracy = file["iterations/accuracy"][:]
            validation = file["validation/accuracy"][:]
        self.assertEqual(len(accuracy), 200)
        self.assertLess(accuracy[:5].mean(), 0.3)
        self.assertGreater(accuracy[-20:].mean(), 0.5)
        self.assertGreater(validation[-1], 0.5)
        for ranks, batch in ((0, 16), (3, 7)):
            found = self.evaluate(checkpoint, "data.validation=0.01", f"train.batch={batch}",
                                  ranks=ranks)
            self.assertEqual(found["images"], 500)
            self.assertAlmostEqual(found["accuracy"], validation[-1], places=5)
        args = ["generate", self.deck, "--resume", checkpoint, "--prompt", "a"]
        self.assert_one_error(harness.run(0, args), USAGE, "data.kind", "images")

    def test_equality(self):
        moe = dict(moe="{experts: 3, every: 2, router: top2, capacity_factor: 1.25}")
        for model in ({}, moe):
            with self.subTest(model=model):
                self.write_deck(**model)
                one = self.train(1, steps=8)
                for ranks, strategy, microbatches in ((3, "dp", 1), (2, "megatron", 2)):
                    other = self.train(ranks, ["--strategy", strategy],
                                       f"train.microbatches={microbatches}", steps=8)
                    self.assert_equal_runs(one, other)
                    with h5py.File(one.path) as a, h5py.File(other.path) as b:
                        numpy.testing.assert_allclose(b["iterations/accuracy"][:],
                                                      a["iterations/accuracy"][:], atol=1e-6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
