"""analysis/from_torch.py: translations of PyTorch's exports (NAME.nodes.json), its errors, and runs of the
graph files against PyTorch's golden values. Tests that need PyTorch itself are skipped without it: run them
with a Python that has it, transformers and h5py."""

import importlib.util
import io
import json
import pathlib
import re
import subprocess
import sys
import unittest

import numpy

FOLDER = pathlib.Path(__file__).resolve().parent
SOURCE = FOLDER.parents[1]
sys.path[:0] = [str(SOURCE / "analysis"), str(SOURCE / "tests" / "runs")]

import harness  # noqa: E402
from torch_graph.deck import deck_of  # noqa: E402
from torch_graph import exchange, nodes as node_files  # noqa: E402
from torch_graph.graph import text_of  # noqa: E402
from torch_graph.layout import Layout, LayoutError  # noqa: E402
from torch_graph.nodes import Node, NotSupported, Ref, TorchParameter  # noqa: E402
from torch_graph.translate import translate  # noqa: E402

MODELS = sorted(path.name.removesuffix(".nodes.json") for path in FOLDER.glob("*.nodes.json"))
HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "transformers")) and bool(
    importlib.util.find_spec("torch.export"))


def load(name):
    with open(FOLDER / f"{name}.nodes.json", encoding="utf-8") as file:
        return node_files.load(file)


class LayoutTest(unittest.TestCase):

    def test_follows_numpy(self):
        """Compares any chain of views with the same chain on an array of places."""
        random = numpy.random.default_rng(1)
        sliced = merged = 0
        for _ in range(300):
            shape = tuple(random.choice([1, 2, 3, 4, 6], size=random.integers(1, 5)))
            layout = Layout.contiguous(shape)
            places = numpy.arange(places_of(shape)).reshape(shape)
            for _ in range(5):
                try:
                    layout, places = random_view(random, layout, places)
                except LayoutError:
                    sliced += 1
                    break
                self.assertEqual(layout.shape, places.shape)
                self.assertTrue((layout.indices() == places).all())
                whole = sorted(places.ravel()) == list(range(places_of(shape)))
                self.assertEqual(layout.covers(places_of(shape)), whole)
                merged += any(len(dim) > 1 for dim in layout.dims)
        self.assertLess(sliced, 60)
        self.assertGreater(merged, 50)

    def test_slices_a_flattened_dimension(self):
        layout = Layout.contiguous((3, 4, 2)).permute([1, 0, 2]).reshape((12, 2))
        places = numpy.arange(24).reshape(3, 4, 2).transpose(1, 0, 2).reshape(12, 2)
        self.assertTrue((layout.slice(0, 3, 6).indices() == places[3:9]).all())

    def test_refuses_what_has_no_layout(self):
        with self.assertRaises(LayoutError):
            Layout.contiguous((4, 6)).slice(1, 0, 4).reshape((16,)).slice(0, 2, 4)
        with self.assertRaises(LayoutError):
            Layout.contiguous((6,)).reshape((4, 2))


def places_of(shape):
    return int(numpy.prod(shape))


def random_view(random, layout, places):
    kind = random.choice(["reshape", "permute", "slice", "select", "expand"])
    at = int(random.integers(places.ndim))
    if kind == "reshape":
        order = random.permutation(places.ndim)[:2]
        shape = list(places.shape)
        if len(order) == 2 and abs(order[0] - order[1]) == 1:  # two neighbours become one
            shape[min(order):max(order) + 1] = [shape[order[0]] * shape[order[1]]]
        elif shape[at] % 2 == 0:
            shape[at:at + 1] = [2, shape[at] // 2]
        return layout.reshape(shape), places.reshape(shape)
    if kind == "permute":
        order = random.permutation(places.ndim)
        return layout.permute(order), places.transpose(order)
    if kind == "slice":
        start = int(random.integers(places.shape[at]))
        count = int(random.integers(1, places.shape[at] - start + 1))
        return layout.slice(at, start, count), places.take(range(start, start + count), at)
    if kind == "select" and places.ndim > 1:
        index = int(random.integers(places.shape[at]))
        return layout.select(at, index), places.take(index, at)
    shape = (2, *places.shape)
    return layout.expand(shape), numpy.broadcast_to(places, shape)


class TranslationTest(unittest.TestCase):

    def test_gives_the_graph_files(self):
        self.assertEqual(len(MODELS), 7)
        for name in MODELS:
            with self.subTest(name):
                text = text_of(*translate(load(name), name), f"# zoo.py: {name}(), by make.py")
                self.assertEqual(text, (FOLDER / f"{name}.txt").read_text())

    def test_exchanges_values(self):
        """Values go from PyTorch to hidup and back, each at its place by the shapes."""
        for name in MODELS:
            with self.subTest(name):
                nodes = load(name)
                graph, loss = translate(nodes, name)
                mapping = json.loads(exchange.map_of(graph, loss))
                shapes = {node.value.name: node.value.shape for node in nodes
                          if node.op == "parameter"}
                values = {at: numpy.random.default_rng(1).normal(size=shape)
                          for at, shape in shapes.items()}
                ours = exchange.from_torch(values, mapping)
                self.assertEqual({at: value.shape for at, value in ours.items()},
                                 {tensor.name: tensor.shape for tensor in graph.used(loss)
                                  if tensor.pieces})
                back = {at: numpy.full(shape, numpy.nan) for at, shape in shapes.items()}
                exchange.to_torch(ours, mapping, back)
                for at, value in back.items():
                    known = ~numpy.isnan(value)
                    self.assertTrue((value[known] == values[at][known]).all())
                    self.assertTrue(known.all() or "embeddings" in at or "positions" in at
                                    or "wpe" in at, at)  # rows beyond the sequence

    def test_order_of_values(self):
        """Rows of by_hand are [head, query or key or value, within the head]; those of vit are the
        convolution's."""
        for model, name, shape, ordered in (
                ("by_hand", "qkv.weight", (36, 12),
                 lambda weight: weight.reshape(3, 3, 4, 12).swapaxes(0, 1)),
                ("vit", "vit.embeddings.patch_embeddings.projection.weight", (12, 3, 4, 4),
                 lambda weight: weight.reshape(12, 48))):
            with self.subTest(model):
                mapping = json.loads(exchange.map_of(*translate(load(model), model)))
                weight = numpy.random.default_rng(1).normal(size=shape)
                found = exchange.from_torch({name: weight}, {name: mapping[name]})[name]
                self.assertTrue((found == ordered(weight)).all())


def parameter(name, *shape, start=("normal", 0.5)):
    return Node(name, "parameter", shape=shape, value=TorchParameter(name, shape, start))


def tokens():
    return Node("tokens", "input", shape=(2, 4), value="tokens")


def embedded():
    """Returns tokens as vectors of 6."""
    return [tokens(), parameter("table", 9, 6),
            call("embedding", (2, 4, 6), weight=Ref("table"), indices=Ref("tokens"))]


def call(op, shape, name=None, **arguments):
    return Node(name or op, op, arguments, shape, "block.part", f"model.py:7: {op}()")


class ErrorTest(unittest.TestCase):

    def assert_refused(self, nodes, *words):
        """Checks that the error names the last node: name, operator, source and module."""
        with self.assertRaises(NotSupported) as caught:
            translate(nodes, "model")
        last = nodes[-1]
        for word in (f"{last.name} ({last.op}): ", last.source, "block.part", *words):
            self.assertIn(word, str(caught.exception))

    def test_unknown_operator(self):
        self.assert_refused([*embedded(), call("cumsum", (2, 4, 6), x=Ref("embedding"), dim=1)],
                            "no operation")

    def test_functions(self):
        """Functions of an element that hidup lacks are refused where they are made, not where used."""
        for op, word in (("gelu", "tanh form"), ("tanh", "none of relu, gelu, silu"),
                         ("abs", "none of")):
            made = call(op, (2, 4, 6), x=Ref("embedding"),
                        **({"approximate": "none"} if op == "gelu" else {}))
            used = call("dropout", (2, 4, 6), input=Ref(op), p=0.1, train=True)
            with self.subTest(op), self.assertRaises(NotSupported) as caught:
                translate([*embedded(), made, used], "model")
            self.assertIn(f"{op} ({op}): ", str(caught.exception))
            self.assertIn(word, str(caught.exception))

    def test_product_of_activations(self):
        self.assert_refused([*embedded(), call("matmul", (2, 4, 4), x=Ref("embedding"),
                                               other=Ref("tokens"))], "product of two activations")
        self.assert_refused([*embedded(), call("relu", (2, 4, 6), x=Ref("embedding")),
                             call("dropout", (2, 4, 6), input=Ref("embedding"), p=0.5, train=True),
                             call("mul", (2, 4, 6), x=Ref("relu"), other=Ref("dropout"))],
                            "on two tensors")

    def test_padding_row(self):
        nodes = embedded()
        nodes[-1].arguments["padding_idx"] = 0
        self.assert_refused(nodes, "padding_idx=0", "pad_token_id=None")

    def test_part_of_a_tensor(self):
        self.assert_refused([*embedded(),
                             call("slice", (2, 2, 6), x=Ref("embedding"), dim=1, start=2, end=4),
                             call("relu", (2, 2, 6), x=Ref("slice")),
                             call("dropout", (2, 2, 6), input=Ref("slice"), p=0.5, train=True)],
                            "part of a tensor")

    def test_layer_norm_without_parameters(self):
        self.assert_refused([*embedded(), call("layer_norm", (2, 4, 6), input=Ref("embedding"),
                                               normalized_shape=[6])], "weight and bias")

    def test_almost_rms_norm(self):
        """Cases have another mean, another root, no weight, or another dividend."""
        def nodes(dim=(-1,), exponent=2, root="rsqrt", divided="embedding", weight="w"):
            return [*embedded(), parameter("w", 6),
                    call("pow", (2, 4, 6), x=Ref("embedding"), exponent=exponent),
                    call("mean", (2, 4, 1), x=Ref("pow"), dim=list(dim), keepdim=True),
                    call("add", (2, 4, 1), x=Ref("mean"), other=1e-6, alpha=1),
                    call(root, (2, 4, 1), "root", x=Ref("add")),
                    call("relu", (2, 4, 6), x=Ref("embedding")),
                    call("mul", (2, 4, 6), "over", x=Ref(divided), other=Ref("root")),
                    call("mul", (2, 4, 6), "weighted", x=Ref(weight), other=Ref("over"))]

        self.assert_refused(nodes(dim=[1])[:6], "a mean other than RMS norm's")
        self.assert_refused(nodes(exponent=4)[:6], "a mean other than RMS norm's")
        self.assert_refused(nodes(root="sqrt")[:10], "divides by the root")
        self.assert_refused(nodes(divided="relu")[:10], "what its mean square is of")
        self.assert_refused(nodes(weight="embedding"), "RMS norm without a weight")
        self.assert_refused([*embedded(), call("rms_norm", (2, 4, 6), input=Ref("embedding"),
                                               normalized_shape=[6])], "with a weight")

    def test_shared_in_two_forms(self):
        """A weight and its first rows as positions are two parameters; its transpose is the same one."""
        twice = [*embedded(), parameter("w", 6, 6),
                 call("linear", (2, 4, 6), input=Ref("embedding"), weight=Ref("w")),
                 call("t", (6, 6), x=Ref("w")),
                 call("linear", (2, 4, 6), "output", input=Ref("linear"), weight=Ref("t"))]
        self.assertEqual(text_of(*translate(twice, "model")).count("parameter w"), 1)
        self.assert_refused([*twice, call("slice", (4, 6), x=Ref("w"), dim=0, start=0, end=4),
                             call("add", (2, 4, 6), x=Ref("output"), other=Ref("slice"))],
                            "parameter w", "several places (of [6, 6], [4, 6])")

    def test_queries_that_are_keys(self):
        with self.assertRaisesRegex(NotSupported, "parameter w is used in several places"):
            self.finished(self.attention(query=Ref("k")))

    def attention(self, *more, **changes):
        nodes = [*embedded(), parameter("w", 18, 6),
                 call("linear", (2, 4, 18), input=Ref("embedding"), weight=Ref("w")),
                 call("view", (2, 4, 3, 3, 2), x=Ref("linear")),
                 call("permute", (3, 2, 3, 4, 2), x=Ref("view"), dims=[2, 0, 3, 1, 4]),
                 call("unbind", (), x=Ref("permute"), dim=0),
                 *(call("getitem", (2, 3, 4, 2), name, x=Ref("unbind"), index=at)
                   for at, name in enumerate(("q", "k", "v"))),
                 Node("past", "constant", shape=(4, 4), value=numpy.tri(4, dtype=bool)),
                 Node("window", "constant", shape=(4, 4), value=numpy.tri(4, k=1, dtype=bool))]
        arguments = {"query": Ref("q"), "key": Ref("k"), "value": Ref("v"), **changes}
        return [*nodes, *more, call("scaled_dot_product_attention", (2, 3, 4, 2), **arguments)]

    def test_attention(self):
        self.assert_refused(self.attention(dropout_p=0.1), "dropout of 0.1", "attn_pdrop")
        self.assert_refused(self.attention(scale=1.0), "divided by the root of 2")
        self.assert_refused(self.attention(attn_mask=Ref("window")), "neither causal nor")
        self.assert_refused(self.attention(attn_mask=Ref("q")), "depends on the input")
        self.assert_refused(self.attention(query=Ref("embedding")), "queries")

    def finished(self, nodes):
        """Returns the statements of a model that continues with a head."""
        nodes = [*nodes, call("transpose", (2, 4, 3, 2), x=Ref(nodes[-1].name), dim0=1, dim1=2),
                 call("reshape", (2, 4, 6), x=Ref("transpose")),
                 call("dropout", (2, 4, 6), input=Ref("reshape"), p=0.25, train=True),
                 parameter("head.weight", 9, 6),
                 call("linear", (2, 4, 9), "logits", input=Ref("dropout"),
                      weight=Ref("head.weight"))]
        nodes.insert(-2, call("dropout", (2, 4, 6), "idle", input=Ref("dropout"), p=0.5,
                              train=False))
        nodes[-1].arguments["input"] = Ref("idle")
        return text_of(*translate(nodes, "model")).splitlines()

    def test_what_attention_and_dropout_become(self):
        for changes, causal in (({}, 0), ({"is_causal": True}, 1), ({"attn_mask": Ref("past")}, 1)):
            lines = self.finished(self.attention(**changes))
            found = [line.partition(" = ")[2] for line in lines]
            self.assertIn(f"attention(w_2) {{causal={causal}}} : f32[2, 4, 3, 2]", found)
            self.assertEqual([line for line in found if line.startswith("dropout(")],
                             ["dropout(block.part_2) {p=0.25} : f32[2, 4, 3, 2]"])

    def test_scaled_queries_and_an_empty_cache(self):
        """As in transformers, a factor precedes a view, and keys follow an empty cache."""
        more = [call("mul", (2, 3, 4, 2), x=Ref("q"), other=0.5),
                call("reshape", (6, 4, 2), "scaled", x=Ref("mul")),
                call("reshape", (2, 3, 4, 2), "queries", x=Ref("scaled")),
                Node("none", "constant", shape=(0,), value=numpy.zeros(0)),
                call("cat", (2, 3, 4, 2), "keys", tensors=[Ref("none"), Ref("k")], dim=2)]
        queries = {"query": Ref("queries"), "key": Ref("keys")}
        lines = self.finished(self.attention(*more, **queries, scale=2**0.5))
        self.assertTrue(any("attention(w_2) {causal=0}" in line for line in lines), lines)
        self.assert_refused(self.attention(*more, **queries), "divided by the root of 2")


class RunTest(harness.RunTest):

    def test_golden_values(self):
        """Compares losses and gradient norms of the first steps, and the first gradients, to 1e-5."""
        for at, name in enumerate(MODELS):
            with self.subTest(name):
                run, gradients = self.folder / f"{name}.h5", self.folder / f"{name}.gradients.h5"
                result = harness.run(1 + at % 2, [
                    "train", FOLDER / f"{name}.yaml", "--cluster", self.folder / "cluster.yaml",
                    "--strategy", "dp", "--out", run, "--dump-gradients", gradients])
                if name == "vit" and "data.kind" in result.stderr:
                    self.skipTest("this hidup has no images")
                self.assert_done(result)
                check = subprocess.run(
                    [sys.executable, SOURCE / "tests" / "golden" / "check_golden.py",
                     FOLDER / f"{name}.json", run, gradients], stdout=subprocess.PIPE, text=True)
                self.assertEqual(check.returncode, 0, check.stdout)


    def test_the_deck_trains(self):
        """from_torch.py's deck trains unchanged."""
        for name in MODELS:
            with self.subTest(name):
                graph, loss = translate(load(name), name)
                (self.folder / f"{name}.txt").write_text(text_of(graph, loss))
                deck = self.folder / f"{name}.yaml"
                deck.write_text(deck_of(graph, loss, f"{name}.txt"))
                result = harness.run(1, ["train", deck, "--cluster", self.folder / "cluster.yaml",
                                         "--strategy", "dp", "--set",
                                         "train.steps=1"])
                self.assert_done(result)


@unittest.skipUnless(HAS_TORCH, "PyTorch 2.6 or later and transformers are not installed")
class ToolTest(harness.RunTest):

    def call_tool(self, model, shape="4x7:int64"):
        return subprocess.run(
            [sys.executable, SOURCE / "analysis" / "from_torch.py", model, "--input", shape, "-o",
             self.folder / "model.txt"], cwd=FOLDER, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)

    def test_writes_the_graph_files(self):
        """The files are equal except for the scales of random values."""
        def without_scales(text):
            return re.sub(r"(uniform|normal)\([^)]*\)|^#.*", "", text)

        for name in MODELS:
            with self.subTest(name):
                result = self.call_tool(f"zoo:{name}", "4x3x32x32:float32" if name == "vit"
                                        else "4x7:int64")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(without_scales((self.folder / "model.txt").read_text()),
                                 without_scales((FOLDER / f"{name}.txt").read_text()))
                self.assertTrue(json.loads((self.folder / "model.map.json").read_text()))
                self.assertIn("graph: model.txt", (self.folder / "model.yaml").read_text())

    def test_names_the_line_of_an_error(self):
        (self.folder / "mine.py").write_text(
            "import torch\n\n\nclass Model(torch.nn.Module):\n\n    def __init__(self):\n"
            "        super().__init__()\n        self.table = torch.nn.Embedding(31, 12)\n\n"
            "    def forward(self, tokens):\n        x = self.table(tokens)\n"
            "        return x.cumsum(1)\n")
        (self.folder / "zoo.py").write_text("")
        result = subprocess.run(
            [sys.executable, SOURCE / "analysis" / "from_torch.py", "mine:Model", "--input",
             "4x7:int64", "-o", "model.txt"], cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("cumsum (cumsum): hidup has no operation for it", result.stderr)
        self.assertIn("mine.py:12: return x.cumsum(1)", result.stderr)
        self.assertFalse((self.folder / "model.txt").exists())

    def test_starts(self):
        import torch
        from torch_graph.export import start_of
        torch.manual_seed(1)
        values = torch.empty(500)
        for fill, kind, scale in ((values.normal_, "normal", 0.02),
                                  (values.uniform_, "uniform", 0.3)):
            fill(*((0, scale) if kind == "normal" else (-scale, scale)))
            found = start_of(values, "w")
            self.assertEqual(found[0], kind)
            self.assertLess(abs(found[1] / scale - 1), 0.1)
        self.assertEqual(start_of(values.fill_(0), "w"), ("zeros",))
        self.assertEqual(start_of(values.fill_(1), "w"), ("ones",))
        with self.assertRaisesRegex(SystemExit, "w starts with 2"):
            start_of(values.fill_(2), "w")


if __name__ == "__main__":
    unittest.main(verbosity=2)
