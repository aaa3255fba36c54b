"""A trained model is evaluated on any ranks, and continues a text."""

import json
import math
import unittest

import h5py
import numpy

import harness

USAGE, FILE, NOT_FINITE = 2, 6, 9
TOLERANCE = 2e-5  # relative, of equal losses
PERIOD = "the rank waits for its sum; "  # longer than a sequence
TOKENS = 45  # generated: more than a sequence


class EvaluateTest(harness.RunTest):

    def setUp(self):
        super().setUp()
        (self.folder / "text.txt").write_text(PERIOD * 60)

    def trained(self, ranks, *more, steps=20):
        """Trains with a checkpoint at the end; returns (checkpoint, its validations as {step: loss})."""
        out = f"run{len(list(self.folder.iterdir()))}.h5"
        self.assert_done(harness.run(ranks, self.train_args(
            out, f"train.steps={steps}", f"train.checkpoint.every_steps={steps}",
            "data.validation=0.2", *more), program=self.program))
        with h5py.File(self.folder / out) as file:
            validations = {} if "validation" not in file else dict(
                zip(file["validation/step"][:].tolist(), file["validation/loss"][:].tolist()))
        folder = (self.folder / out).with_suffix(".ckpt")
        return folder / f"step-{steps:08}.ckpt.h5", validations

    def evaluate_args(self, checkpoint, *more):
        args = ["evaluate", self.deck, "--cluster", self.folder / "cluster.yaml",
                "--resume", checkpoint]
        for setting in more:
            args += setting if isinstance(setting, list) else ["--set", setting]
        return args

    def evaluate(self, ranks, checkpoint, *more):
        result = harness.run(ranks, self.evaluate_args(
            checkpoint, "data.validation=0.2", ["--json"], *more), program=self.program)
        self.assert_done(result)
        found = json.loads(result.stdout)
        self.assertAlmostEqual(found["perplexity"], math.exp(found["loss"]), places=6)
        return found

    def generate_args(self, checkpoint, prompt, *more):
        return ["generate", self.deck, "--resume", checkpoint, "--prompt", prompt, *more]

    def generate(self, checkpoint, prompt, tokens, *more):
        result = harness.run(0, self.generate_args(checkpoint, prompt, "--tokens", tokens, *more),
                             program=self.program)
        self.assert_done(result)
        self.assertEqual(result.stderr, "")
        self.assertTrue(result.stdout.startswith(prompt))
        return result.stdout


class Evaluate(EvaluateTest):

    def test_anywhere_as_in_training(self):
        everywhere = [(0, []), (3, []), (2, ["train.batch=7"]), (0, ["train.batch=64"]),
                      (2, [["--strategy", "megatron"]]),
                      (3, [["--strategy", "zero1"], "train.microbatches=2"])]
        for model, places in (
                (dict(family="gpt"), everywhere),
                (dict(moe="{experts: 3, every: 2, router: top2, capacity_factor: 1.25}"),
                 [(2, []), (3, ["train.batch=7"])])):
            self.write_deck(**model)
            checkpoint, validations = self.trained(2, "train.validate_every=10",
                                                   ["--strategy", "fsdp"])
            self.assertEqual(list(validations), [10, 20])
            self.assertLess(validations[20], validations[10])
            # The text has 98 windows of 17 tokens and their targets; a fifth of them is evaluated.
            for ranks, more in places:
                with self.subTest(model=model, ranks=ranks, more=more):
                    found = self.evaluate(ranks, checkpoint, *more)
                    self.assertEqual(found["tokens"], 20 * 17)
                    numpy.testing.assert_allclose(found["loss"], validations[20], rtol=TOLERANCE)

    def test_other_precision(self):
        checkpoint, _ = self.trained(0, "model.precision=bf16")
        wide = self.evaluate(2, checkpoint)
        narrow = self.evaluate(0, checkpoint, "model.precision=bf16")
        self.assertNotEqual(wide["loss"], narrow["loss"])
        numpy.testing.assert_allclose(wide["loss"], narrow["loss"], rtol=2.0 ** -8)

    def test_training_is_not_disturbed(self):
        alone = self.train(2, "data.validation=0.2", ["--strategy", "zero1"])
        watched = self.train(2, "data.validation=0.2", "train.validate_every=3",
                             ["--strategy", "zero1"])
        numpy.testing.assert_array_equal(alone.loss, watched.loss)
        numpy.testing.assert_array_equal(alone.grad_norm, watched.grad_norm)

    def test_words(self):
        """Words are numbered as in training, whatever files are evaluated."""
        (self.folder / "other.txt").write_text("sum; for the " * 60)
        words = "data.tokenizer=words"
        checkpoint, _ = self.trained(0, words)
        found = self.evaluate(0, checkpoint, words)
        # The model has not seen the words in this order.
        other = self.evaluate(2, checkpoint, words, f"data.path={self.folder / 'other.txt'}")
        self.assertGreater(other["loss"], found["loss"])
        (self.folder / "other.txt").write_text("sum; unheard " * 60)
        result = harness.run(0, self.evaluate_args(
            checkpoint, words, f"data.validation={self.folder / 'other.txt'}"))
        self.assert_one_error(result, USAGE, "unheard")

    def test_refusals(self):
        checkpoint, _ = self.trained(0, steps=1)
        some = "data.validation=0.2"
        for more, code, texts in (
                ([], USAGE, ["model.yaml", "data.validation"]),
                ([some, "model.layers=3"], USAGE, [str(checkpoint), "model.layers: 2 -> 3"]),
                ([some, "model.vocab=300"], USAGE, ["model.vocab"]),
                ([some, ["--strategy", "search"]], USAGE, ["--strategy"]),
                ([some, ["--strategy", "dpp"]], USAGE, ["dpp"])):
            with self.subTest(more=more):
                self.assert_one_error(harness.run(0, self.evaluate_args(checkpoint, *more)),
                                      code, *texts)
        missing = self.folder / "missing.ckpt.h5"
        for args, ranks in ((self.evaluate_args(missing, some), 2),
                            (self.generate_args(missing, "the "), 0)):
            self.assert_one_error(harness.run(ranks, args), FILE, str(missing))


class NotFinite(EvaluateTest):

    def test_parameters_that_are_too_large(self):
        """The only step is finite, but the loss with its updated parameters is not."""
        self.write_deck(family="gpt")
        large = ["train.lr=1000", "model.precision=fp16"]
        result = harness.run(2, self.train_args("stops.h5", *large, "train.steps=1",
                                                "data.validation=0.2"), program=self.program)
        self.assert_one_error(result, NOT_FINITE, "validation after step 1: the loss of batch 1 ",
                              "is that of instruction ", " on rank 0")
        checkpoint, _ = self.trained(0, *large, "train.on_nan=skip", steps=1)
        result = harness.run(2, self.evaluate_args(checkpoint, "data.validation=0.2", large[1],
                                                   "train.on_nan=skip"), program=self.program)
        self.assert_one_error(result, NOT_FINITE, "the loss of batch 1 ", " on rank 0")
        self.assertEqual(result.stdout, "")
        result = harness.run(0, self.generate_args(checkpoint, "the ", "--set", large[1]),
                             program=self.program)
        self.assert_one_error(result, NOT_FINITE, str(checkpoint), "is that of instruction ")


class Generate(EvaluateTest):

    def periodic(self, **model):
        """Returns a model that has learned the text by heart."""
        self.write_deck(family="gpt", **model)
        checkpoint, _ = self.trained(2, "model.dropout=0", "train.lr=0.01", "train.batch=8",
                                     steps=150)
        return checkpoint

    def test_goes_on_with_the_period(self):
        for model in ({}, dict(moe="{experts: 3, every: 2, router: top2, capacity_factor: 1.25}")):
            with self.subTest(model=model):
                checkpoint = self.periodic(**model)
                expected = (PERIOD * 4)[:10 + TOKENS]
                self.assertEqual(self.generate(checkpoint, expected[:10], TOKENS), expected)

    def test_sampling(self):
        checkpoint, _ = self.trained(0, ["--set", "model.family=gpt"], steps=5)
        self.write_deck(family="gpt")
        greedy = self.generate(checkpoint, "the", TOKENS)
        chain = "the"
        for _ in range(4):
            chain = self.generate(checkpoint, chain, 1)
        self.assertEqual(chain, greedy[:len(chain)])
        hot = ["--temperature", "5", "--seed", "4"]
        self.assertEqual(self.generate(checkpoint, "the", TOKENS, *hot, "--top-k", "1"), greedy)
        drawn = self.generate(checkpoint, "the", TOKENS, *hot, "--top-k", "9")
        self.assertNotEqual(drawn, greedy)
        self.assertEqual(self.generate(checkpoint, "the", TOKENS, *hot, "--top-k", "9"), drawn)
        self.assertNotEqual(self.generate(checkpoint, "the", TOKENS, "--temperature", "5", "--seed",
                                          "5", "--top-k", "9"), drawn)
        self.assertEqual(self.generate(checkpoint, "the", 0), "the")

    def test_words(self):
        self.write_deck(family="gpt")
        words = "data.tokenizer=words"
        checkpoint, _ = self.trained(0, words, "model.dropout=0", "train.lr=0.01", steps=60)
        text = self.generate(checkpoint, "its  sum;", 4, "--set", words)
        self.assertEqual(text, "its  sum; the rank waits for")

    def test_graph_file(self):
        deck = harness.SOURCE / "inputs" / "models" / "own-graph.yaml"
        small = ["--set", f"data.path={self.folder / 'text.txt'}", "--set", "train.steps=20",
                 "--set", "train.lr=0.01", "--set", "train.checkpoint.every_steps=20"]
        self.assert_done(harness.run(1, [
            "train", deck, "--cluster", self.folder / "cluster.yaml", "--strategy", "dp",
            "--out", self.folder / "own.h5", *small], program=self.program))
        checkpoint = self.folder / "own.ckpt" / "step-00000020.ckpt.h5"
        result = harness.run(0, ["generate", deck, "--resume", checkpoint, "--prompt", "the",
                                 "--tokens", "5"], program=self.program)
        self.assert_done(result)
        self.assertGreater(len(result.stdout), 3)

    def test_refusals(self):
        checkpoint, _ = self.trained(0, steps=1)
        for more, text in ((["--prompt", ""], "--prompt"),
                           (["--set", "model.hidden=48"], "model.hidden: 24 -> 48")):
            with self.subTest(more=more):
                args = self.generate_args(checkpoint, "the ", *more)
                if more[0] == "--prompt":
                    args = self.generate_args(checkpoint, *more[1:])
                self.assert_one_error(harness.run(0, args), USAGE, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
