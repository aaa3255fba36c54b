"""Strategies as files: written, edited, trained with, refused; and their record in the timing file."""

import json
import re
import unittest

import h5py
import numpy

import harness

USAGE, FILE = 2, 6
EXPERTS = 3
CHOICES = 2


class StrategyTest(harness.RunTest):

    def setUp(self):
        super().setUp()
        self.write_deck(moe=f"{{experts: {EXPERTS}, every: 2, router: top{CHOICES}}}")
        self.file = self.folder / "mine.yaml"

    def validate(self, *args, ranks=2):
        return harness.run(0, ["validate", self.deck, "--cluster", self.folder / "cluster.yaml",
                               "--ranks", ranks, *args], cwd=self.folder)

    def write_strategy(self, name):
        result = self.validate("--strategy", name, "--strategy-out", self.file)
        self.assert_done(result)
        self.assertIn(str(self.file), result.stdout)
        return self.file.read_text()

    def edit(self, text, *edits):
        """Replaces every pattern, each of which the text must have once."""
        for pattern, replacement in edits:
            text, count = re.subn(pattern, replacement, text)
            self.assertEqual(count, 1, pattern)
        return text


def rule(operation, name, rest=", .*"):
    """Returns an edit: another rule for an operation, without inputs and outputs."""
    return rf"{{op: {operation}, rule: \[.*?\]{rest}}}", f"{{op: {operation}, rule: [{name}]}}"


def storage(parameter, stored, state):
    return rf"{{name: {parameter}, .*}}", (
        f"{{name: {parameter}, storage: [{stored}], optimizer_state: [{state}]}}")


class EditedStrategyTest(StrategyTest):

    def test_edited_file_trains_the_same(self):
        text = self.edit(
            self.write_strategy("megatron"),
            ("name: megatron", "name: mine"),
            rule("layers.0.ffn.relu", "batch"),
            rule("layers.1.moe.experts.up", "expert"),
            rule("layers.0.norm1", "sequence"),
            storage("layers.0.norm1.weight", "S(0)", "S(0)"),
            storage("layers.1.moe.router.weight", "R", "S(1)"))
        self.file.write_text(text)
        result = self.validate("--strategy", "mine.yaml")
        self.assert_done(result)
        self.assertIn("strategy mine", result.stdout)
        other = self.train(2, ["--strategy", self.file])
        self.assert_equal_runs(self.train(1), other)
        with h5py.File(other.path) as file:
            self.assertEqual(file["strategy"].attrs["name"], "mine")
            recorded = file["strategy/text"].asstr()[()]
        # The text lists the consequences of the rules, and keeps every choice.
        self.assertIn("{op: layers.0.ffn.relu, rule: [batch], inputs: [[S(0)]], "
                      "outputs: [[S(0)]]}", recorded)
        self.assertIn("{name: layers.1.moe.router.weight, storage: [R], "
                      "optimizer_state: [S(1)]}", recorded)

    def test_algorithms(self):
        """Collectives use the file's algorithms, which change no loss."""
        choices = {"all_reduce": "windows", "all_gather": "halving", "reduce_scatter": "ring",
                   "all_to_all": "bruck"}
        lines = [f"  - {{collective: {name}, axis: ranks, bytes: 0, algorithm: {algorithm}}}\n"
                 for name, algorithm in choices.items()]
        text = self.edit(self.write_strategy("ep-deepspeed"),
                         ("format_version: 1", "format_version: 2"))
        self.file.write_text(f"{text}algorithms:\n{''.join(lines)}")
        other = self.train(2, ["--strategy", self.file])
        self.assert_equal_runs(self.train(1), other)
        with h5py.File(other.path) as file:
            collectives = file["program/collective"].asstr()[:]
            algorithms = file["program/algorithm"].asstr()[:]
        self.assertIn("all_to_all", collectives)
        self.assertIn("windows", algorithms)
        for collective, algorithm in zip(collectives, algorithms):
            self.assertEqual(algorithm, choices.get(collective, collective and "automatic"))

    def test_wrong_edits(self):
        """Each edit is refused at the mark ^."""
        text = self.write_strategy("megatron")
        relu = "layers.0.ffn.relu"
        for pattern, replacement, words in (
                (*rule(relu, "^colum"), [relu, "colum", "did you mean column?",
                                         "legal rules: replicate, batch, sequence, column"]),
                (*rule("loss", "^column"), ["loss", "legal rules:", "vocabulary"]),
                (*rule(relu, "batch, batch")[:1], f"{{op: {relu}, rule: ^[batch, batch]}}",
                 [relu, "one per axis"]),
                (rf"(op: {relu}, .* inputs: )\[\[S\(2\)\]\]", r"\1^[[S(0)]]",
                 [relu, "the rule column", "[[S(2)]]"]),
                (rf"{{op: {relu}, .*}}", "^{op: layers.0.ffn.rel, rule: [column]}",
                 [f"expected {relu}", "found layers.0.ffn.rel"]),
                (r"(name: head.bias, storage: )\[.*?\]", r"\1^[S(4)]", ["head.bias", "S(4)"]),
                ("gradients: overlapped", "gradients: ^overlaped", ["overlapped or deferred"]),
                ("microbatches: 1\n", "^microbatch: 1\n", ["did you mean microbatches?"])):
            with self.subTest(replacement=replacement):
                marked = self.edit(text, (pattern, replacement))
                at = marked.index("^")
                place = f"{marked.count(chr(10), 0, at) + 1}:{at - marked.rfind(chr(10), 0, at)}"
                self.file.write_text(marked.replace("^", "", 1))
                result = self.validate("--strategy", self.file)
                self.assertEqual(result.code, USAGE, result.stderr)
                self.assertEqual(len(result.error_lines()), 1, result.stderr)
                lines = [line for line in result.stderr.splitlines()
                         if f"{self.file}:{place}: " in line]
                self.assertEqual(len(lines), 1, f"{place}\n{result.stderr}")
                for word in words:
                    self.assertIn(word, lines[0])

    def test_one_rank_speaks(self):
        text = self.write_strategy("dp")
        self.file.write_text(self.edit(text, rule("layers.0.ffn.relu", "row")))
        line = text[:text.index("{op: layers.0.ffn.relu,")].count("\n") + 1
        result = harness.run(2, self.train_args("run.h5", ["--strategy", self.file]))
        self.assert_one_error(result, USAGE, f"{self.file}:{line}:", "layers.0.ffn.relu",
                              "cannot be sharded by row",
                              "legal rules: replicate, batch, sequence, column")
        self.assertNotIn("MPI_ABORT", result.stderr)
        self.assert_one_error(
            harness.run(2, self.train_args("run.h5", ["--strategy", "dpp"])), USAGE,
            "did you mean dp?")
        nowhere = self.folder / "nowhere.yaml"
        self.assert_one_error(
            harness.run(2, self.train_args("run.h5", ["--strategy", nowhere])), FILE, str(nowhere))
        self.assertFalse((self.folder / "run.h5").exists())

    def test_files_that_do_not_fit(self):
        self.write_strategy("dp")
        for args, ranks, code, words in (
                (["--strategy", self.file, "--set", "train.batch=6"], 2, USAGE,
                 [f"{self.file}:2:", "graph_hash", "another graph"]),
                (["--strategy", self.file], 3, USAGE,
                 [f"{self.file}:4:", "mesh", "ranks=3", "found ranks=2"]),
                (["--strategy", "nowhere.txt"], 2, FILE, ["nowhere.txt"]),
                (["--strategy", self.folder], 2, FILE, [str(self.folder)]),
                (["--strategy", "dpp"], 2, USAGE, ["dpp", "did you mean dp?"]),
                (["--strategy", "best"], 2, USAGE, ["best", "megatron-sp"])):
            with self.subTest(args=args, ranks=ranks):
                self.assert_one_error(self.validate(*args, ranks=ranks), code, *words)
        self.assert_done(self.validate("--strategy", self.file))

    def test_existing_file_is_kept(self):
        self.file.write_text("precious")
        out = ["--strategy", "fsdp", "--strategy-out", self.file]
        self.assert_one_error(self.validate(*out), FILE, str(self.file), "--overwrite")
        self.assertEqual(self.file.read_text(), "precious")
        self.assert_done(self.validate(*out, "--overwrite"))
        self.assertIn("name: fsdp", self.file.read_text())
        wrong = self.folder / "wrong.yaml"
        self.assertEqual(self.validate("--strategy", "dpp", "--strategy-out", wrong).code, USAGE)
        order = ["--schedule-out", self.folder / "order.csv"]
        self.assert_one_error(self.validate("--strategy", "fsdp", "--strategy-out", wrong, *order), USAGE,
                              "the strategy fsdp has no stages to order")
        self.assertFalse(wrong.exists())


class ScheduleTest(unittest.TestCase):

    def test_moves_beside_and_moves_that_hold(self):
        """Moves beside the computation add the first way to the second stage and the last way back; those that
        hold the second stage between its microbatches add two more."""
        seconds = {}
        for name, moves in (("none", []), ("beside", ["--move", "1s"]), ("hold", ["--move", "1s", "--moves-hold"])):
            result = harness.run(0, ["schedule", "1f1b", "--stages", "2", "--microbatches", "2", "--times",
                                     "1s,2s,0s", "--json", *moves])
            self.assertEqual(result.code, 0, result.stderr)
            seconds[name] = json.loads(result.stdout)["makespan_s"]
        self.assertEqual(seconds, {"none": 9, "beside": 11, "hold": 13})


class TimingFileTest(StrategyTest):

    def test_recorded_strategy_repeats_the_run(self):
        named = self.train(2, ["--strategy", "megatron-sp"])
        with h5py.File(named.path) as file:
            self.file.write_text(file["strategy/text"].asstr()[()])
            attributes = dict(file["strategy"].attrs)
            program = {name: file["program"][name].asstr()[:]
                       for name in ("name", "kind", "stream", "collective")}
        self.assertEqual(attributes["name"], "megatron-sp")
        self.assertRegex(attributes["hash"], "^[0-9a-f]{16}$")
        # --strategy-out gives the same text.
        written = self.file.read_text()
        self.file.unlink()
        self.assertEqual(self.write_strategy("megatron-sp"), written)

        again = self.train(2, ["--strategy", self.file])
        numpy.testing.assert_array_equal(again.loss, named.loss)
        numpy.testing.assert_array_equal(again.grad_norm, named.grad_norm)
        with h5py.File(again.path) as file:
            self.assertEqual(dict(file["strategy"].attrs), attributes)
            numpy.testing.assert_array_equal(file["program/name"].asstr()[:], program["name"])

        # Slices are copies within the rank: they have no collective and no communication stream.
        kinds = set(program["kind"])
        self.assertEqual(kinds, {"compute", "collective", "local"})
        local = program["kind"] == "local"
        self.assertTrue((program["collective"][local] == "").all())
        self.assertTrue((program["stream"][local] == "compute").all())
        sent = program["kind"] == "collective"
        self.assertTrue((program["collective"][sent] != "").all())
        self.assertLessEqual({"all-gather", "reduce-scatter"},
                             {name.replace("_", "-") for name in program["collective"][sent]})

    def test_experts_and_memory(self):
        one, dp, fsdp = (self.train(ranks, ["--strategy", name], steps=5)
                         for ranks, name in ((1, "dp"), (2, "dp"), (2, "fsdp")))
        loads, stored, hashes = [], [], []
        for run in (one, dp, fsdp):
            with h5py.File(run.path) as file:
                tokens, dropped = file["experts/tokens"][:], file["experts/dropped"][:]
                stored.append(file["ranks/parameter_bytes"][:])
                hashes.append(file["strategy"].attrs["hash"])
            self.assertEqual(tokens.shape, (5, 1, EXPERTS))  # one block of two has experts
            chosen = harness.TRAIN["batch"] * harness.MODEL["sequence"] * CHOICES
            numpy.testing.assert_array_equal(tokens.sum(axis=2), chosen)
            self.assertTrue(((dropped >= 0) & (dropped <= tokens)).all())
            loads.append((tokens, dropped))
        for tokens, dropped in loads[1:]:
            numpy.testing.assert_array_equal(tokens, loads[0][0])
            numpy.testing.assert_array_equal(dropped, loads[0][1])
        share = 100 * loads[0][1].sum(axis=(1, 2)) / loads[0][0].sum(axis=(1, 2))
        told = harness.run(2, self.train_args("told.h5", "train.steps=5"))
        largest = (loads[0][0].max(axis=2) / loads[0][0].mean(axis=2)).mean()
        self.assertRegex(told.stdout, (
            rf"\nexperts of MoE layer 0: the largest load is {largest:.2f} times the mean, .*; "
            rf"dropped {share.mean():.1f} %\n"))
        self.assertEqual(len(set(hashes)), 3)
        parameters = sum(gradient.size for gradient in one.gradients.values())
        self.assertGreaterEqual(stored[0], 4 * parameters)
        self.assertLess(stored[0], 4.1 * parameters)  # tensors are aligned
        numpy.testing.assert_array_equal(stored[1], [stored[0][0]] * 2)
        self.assertEqual(stored[2].shape, (2,))
        self.assertTrue((stored[2] < 0.6 * stored[1]).all(), stored)
        self.assertGreaterEqual(stored[2].sum(), 4 * parameters)

    def test_dense_models_have_no_experts(self):
        self.write_deck()
        with h5py.File(self.train(1, steps=2).path) as file:
            self.assertNotIn("experts", file)


if __name__ == "__main__":
    unittest.main(verbosity=2)
