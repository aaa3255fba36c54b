"""hidup graph in its three formats, and models written as a graph (model.graph)."""

import json
import math
import re
import shutil
import subprocess
import unittest

import numpy

import harness

USAGE, FILE = 2, 6
MODELS = harness.SOURCE / "inputs" / "models"


class GraphCommandTest(harness.RunTest):

    def graph(self, *args):
        result = harness.run(0, ["graph", *args], cwd=self.folder)
        self.assert_done(result)
        return result.stdout

    def setUp(self):
        super().setUp()
        self.write_deck(moe="{experts: 3, every: 2}")

    def test_text_is_a_model(self):
        """Its output, used as model.graph, is the same graph with the same rules."""
        text = self.graph(self.deck)
        (self.folder / "mine.txt").write_text(text)
        mine = self.folder / "mine.yaml"
        head, _, rest = self.deck.read_text().partition("data:")
        sequence = re.search(r"sequence: \d+", head)[0]
        mine.write_text(f"model:\n  graph: mine.txt\n  {sequence}\ndata:{rest}")
        self.assertEqual(self.graph(mine), text)
        shipped, own = (json.loads(self.graph(deck, "--format", "json"))
                        for deck in (self.deck, mine))
        self.assertIn(f"graph_hash {shipped['graph_hash']}", text)
        self.assertRegex(shipped["graph_hash"], "^[0-9a-f]{16}$")
        self.assertEqual(own["graph_hash"], shipped["graph_hash"])
        self.assertEqual(own["operations"], shipped["operations"])
        self.assertEqual(by_name(own["tensors"]), by_name(shipped["tensors"]))
        other = json.loads(self.graph(self.deck, "--format=json", "--set", "train.batch=6"))
        self.assertNotEqual(other["graph_hash"], shipped["graph_hash"])

    def test_a_llama_as_a_graph(self):
        """Its operations in a graph file train like the family, under other strategies, too."""
        deck = harness.SOURCE / "tests" / "interchange" / "llama.yaml"
        (self.folder / "mine.txt").write_text(self.graph(deck))
        mine = self.folder / "mine.yaml"
        head, _, rest = deck.read_text().partition("data:")
        sequence = re.search(r"sequence: \d+", head)[0]
        mine.write_text(f"model:\n  graph: mine.txt\n  {sequence}\n  vocab: 211\ndata:{rest}")
        losses = []
        for ranks, strategy, which in ((1, "dp", deck), (1, "dp", mine), (3, "fsdp", mine),
                                       (2, "megatron-sp", mine)):
            out = self.folder / "run.h5"
            self.assert_done(harness.run(
                ranks, ["train", which, "--cluster", self.folder / "cluster.yaml", "--strategy",
                        strategy, "--out", out, "--overwrite", "--set", "train.steps=4"]))
            losses.append(harness.losses(out))
        self.assertEqual(list(losses[0]), list(losses[1]))
        for other in losses[2:]:
            numpy.testing.assert_allclose(other, losses[0], rtol=harness.STEP_TOLERANCE)

    def test_json(self):
        graph = json.loads(self.graph(self.deck, "--format", "json"))
        tensors = by_name(graph["tensors"])
        self.assertEqual(len(tensors), len(graph["tensors"]))
        self.assertEqual(tensors["tokens"], dict(name="tokens", role="input", dtype="i32",
                                                 shape=[5, 17], dims=["batch", "sequence"]))
        sizes = [tensor["shape"] for tensor in tensors.values() if tensor["role"] == "parameter"]
        self.assertEqual(sum(map(math.prod, sizes)), graph["parameters"])
        made = {name for name, tensor in tensors.items() if tensor["role"] == "activation"}
        self.assertEqual({operation["name"] for operation in graph["operations"]}, made)
        known = {name for name in tensors if name not in made}
        for operation in graph["operations"]:
            with self.subTest(operation=operation["name"]):
                self.assertLessEqual(set(operation["inputs"]), known, "in order")
                known.add(operation["name"])
                self.assert_rules(operation, tensors)
        loss = graph["operations"][-1]
        self.assertEqual(loss["kind"], "cross_entropy")
        self.assertIn(dict(name="vocabulary", inputs=["S(2)", "R"], output="R",
                           input_gradients=["S(2)", "R"]), loss["rules"])
        product = next(o for o in graph["operations"] if o["name"] == "layers.0.ffn.up")
        self.assertEqual(product["flops"], 2 * 5 * 17 * 24 * 40)

    def assert_rules(self, operation, tensors):
        """A rule has a placement for every input, each of an existing dimension."""
        rules = operation["rules"]
        self.assertEqual(rules[0]["name"], "replicate")
        self.assertIn("batch", [rule["name"] for rule in rules])
        names = [*operation["inputs"], operation["name"]]
        for rule in rules:
            self.assertEqual(len(rule["input_gradients"]), len(operation["inputs"]))
            placements = [*rule["inputs"], rule["output"]]
            self.assertEqual(len(placements), len(names))
            for name, placement in zip(names, placements):
                self.assertRegex(placement, r"^(R|P|S\(\d\))$")
                if placement.startswith("S"):
                    self.assertLess(int(placement[2]), len(tensors[name]["shape"]), name)

    def test_dot(self):
        dot = self.graph(self.deck, "--format", "dot")
        graph = json.loads(self.graph(self.deck, "--format", "json"))
        bare = re.sub(r'"[^"]*"', "", dot)
        self.assertEqual((bare.count("{"), bare.count("}")), (1, 1))
        self.assertEqual(dot.count('"') % 2, 0)
        self.assertEqual(re.findall(r'^  "([^"]+)" \[shape=box,', dot, re.M),
                         [operation["name"] for operation in graph["operations"]])
        self.assertEqual(re.findall(r'^  "([^"]+)" -> "([^"]+)";$', dot, re.M),
                         [(name, operation["name"]) for operation in graph["operations"]
                          for name in operation["inputs"]])
        if shutil.which("dot"):
            subprocess.run(["dot", "-Tsvg"], input=dot, text=True, stdout=subprocess.DEVNULL,
                           check=True)

    def test_usage(self):
        for args, code, words in (
                ([self.deck, "--format", "yaml"], USAGE, ["--format", "yaml", "{text,json,dot}"]),
                ([self.deck, "--fromat", "dot"], USAGE, ["--fromat", "did you mean --format?"]),
                ([], USAGE, ["DECK"]),
                (["nowhere.yaml"], FILE, ["nowhere.yaml"])):
            with self.subTest(args=args):
                result = harness.run(0, ["graph", *args])
                self.assert_one_error(result, code, *words)
                self.assertEqual(result.stdout, "")
        help_text = self.graph("--help")
        for words in ("DECK", "{text,json,dot}=text", "--set", "Exit codes"):
            self.assertIn(words, help_text)
        self.assertNotIn("--cluster", help_text)


class OwnGraphTest(harness.RunTest):
    """The shipped model that belongs to no family."""

    def setUp(self):
        super().setUp()
        self.text = (MODELS / "own-graph.txt").read_text()
        self.deck = self.folder / "own-graph.yaml"
        deck = (MODELS / "own-graph.yaml").read_text()
        self.deck.write_text(re.sub(r"path:\n( +- .*\n)+", "path: text.txt\n", deck))
        self.assertIn("path: text.txt", self.deck.read_text())
        (self.folder / "own-graph.txt").write_text(self.text)

    def test_trains_on_ranks(self):
        one = self.train(1, steps=10)
        self.assertLess(one.loss[-1], one.loss[0] - 0.5, "the model does not learn")
        self.assert_equal_runs(one, self.train(2, steps=10))
        # A strategy with all-to-alls is edited: rows and columns in the narrow branch.
        strategy = self.folder / "own-strategy.yaml"
        self.assert_done(harness.run(0, [
            "validate", self.deck, "--cluster", self.folder / "cluster.yaml", "--ranks", 2,
            "--strategy", "ep-deepspeed", "--strategy-out", strategy]))
        text = strategy.read_text()
        for operation, rule in (("narrow.up", "column"), ("narrow.relu", "column"),
                                ("narrow", "row"), ("wide.dropout", "sequence")):
            text, edits = re.subn(rf"{{op: {operation}, rule: \[batch\], .*}}",
                                  f"{{op: {operation}, rule: [{rule}]}}", text)
            self.assertEqual(edits, 1, operation)
        strategy.write_text(text)
        self.assert_equal_runs(one, self.train(2, ["--strategy", strategy], steps=10))

    def test_activation_that_no_family_has(self):
        text, changed = re.subn(r"\brelu\(", "silu(", self.text)
        self.assertEqual(changed, 3)
        (self.folder / "own-graph.txt").write_text(text)
        one = self.train(1, steps=10)
        self.assertLess(one.loss[-1], one.loss[0] - 0.5, "the model does not learn")
        self.assert_equal_runs(one, self.train(2, ["--strategy", "megatron"], steps=10))

    def test_microbatches_that_the_graph_cannot_have(self):
        """An activation stands in place of a weight: it would differ between the parts of the batch."""
        graph = self.folder / "own-graph.txt"
        graph.write_text("graph own\n"
                         "input tokens : i32[4, 4]\n"
                         "input targets : i32[4, 4]\n"
                         "parameter table : f32[8, 4] = ones\n"
                         "x = embedding(tokens, table)\n"
                         "y = bias(x, x)\n"
                         "loss = cross_entropy(y, targets)\n")
        deck = self.folder / "whole.yaml"
        deck.write_text("model: {graph: own-graph.txt, sequence: 4, vocab: 4}\n"
                        "data: {kind: synthetic}\n"
                        "train: {batch: 4, steps: 1, microbatches: 2}\n")
        for command in (["validate"], ["search", "--set", "cluster.device.flops=1TFLOPS"]):
            result = harness.run(0, [*command, deck, "--cluster", self.folder / "cluster.yaml"])
            self.assert_one_error(result, USAGE, f"{deck}:3:43: train.microbatches: the batch of "
                                  "this graph cannot be split: y has the activation x as bias")

    def test_wrong_graphs(self):
        """Each graph is refused with the place of the mark ^ in the replacing line."""
        for before, after, words in (
                ("wide.relu = relu(wide.up)", "wide.relu = relu(^wide.upp)",
                 ["wide.upp is not defined above", "did you mean wide.up?"]),
                ("wide.relu = relu(wide.up)", "wide.relu = ^rellu(wide.up)",
                 ["unknown operation rellu", "did you mean relu?"]),
                ("attended = add(x, out)", "^attended = add(x, heads)",
                 ["attended", "[16, 64, 64] and [16, 64, 4, 16]"]),
                ("moe.relu = relu(moe.up)", "moe.relu = relu(moe.up) : ^f32[4, 16, 20, 64]",
                 ["moe.relu is f32[4, 16, 20, 128]"]),
                ("wide.dropout = dropout(wide.relu) {p=0.1}",
                 "wide.dropout = dropout(wide.relu) {^p=1}", ["dropout", "0.999, found 1"]),
                ("out.product = matmul(heads, out.weight) {contract=2} : f32[16, 64, 64]",
                 "out.product = matmul(heads, out.weight) {^contract=1.5}",
                 ["matmul", "whole number"]),
                ("heads = attention(qkv) : f32[16, 64, 4, 16]",
                 "heads = attention(qkv) {^causal=2}", ["attention", "0 or 1"]),
                ("parameter table : f32[256, 64] = uniform(1.7320508)",
                 "parameter table : f32[256, 64] = uniform(^nan)", ["expected a number"]),
                ("parameter table : f32[256, 64] = uniform(1.7320508)",
                 "parameter table : f32[256, 64] = uniform(^-1)", ["from 1e-30"]),
                ("input tokens : i32[16, 64]", "input ^tokens : i32[8, 64]",
                 ["tokens is i32[8, 64]", "train.batch", "i32[16, 64]"]),
                ("graph own", "graph own\nparameter ^spare : f32[3] = ones",
                 ["spare is not used"]),
                ("mixed = add(fed, moe)", "mixed = add(fed, fed)\n^left = relu(moe)",
                 ["left is not used"])):
            with self.subTest(after=after):
                self.assertEqual(self.text.count(f"\n{before}\n"), 1)
                marked = self.text.replace(f"\n{before}\n", f"\n{after}\n")
                if "tokens : i32[8" in after:  # the graph is consistent only then
                    marked = re.sub(r"\[16, 64", "[8, 64", marked)
                    marked = re.sub(r"\[4, 16(\]\n|, 20)", r"[4, 8\1", marked)
                at = marked.index("^")
                line = marked.count("\n", 0, at) + 1
                column = at - marked.rfind("\n", 0, at)
                path = self.folder / "own-graph.txt"
                path.write_text(marked.replace("^", "", 1))
                result = harness.run(0, ["validate", self.deck])
                self.assert_one_error(result, USAGE, f"{path}:{line}:{column}: ", *words)
        self.assert_one_error(harness.run(2, self.train_args("run.h5")), USAGE, str(path))
        path.unlink()
        self.assert_one_error(harness.run(2, self.train_args("run.h5")), FILE, str(path))
        self.assertFalse((self.folder / "run.h5").exists())


def by_name(tensors):
    return {tensor["name"]: tensor for tensor in tensors}


if __name__ == "__main__":
    unittest.main(verbosity=2)
