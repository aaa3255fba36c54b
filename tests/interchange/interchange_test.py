"""Models of transformers: read, trained, evaluated and exported under all kinds of strategies.

make.py saved them; check_transformers.py compares more, on machines with transformers.
"""

import json
import pathlib
import shutil
import sys
import unittest

import h5py
import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "runs"))

import harness  # noqa: E402

USAGE, FILE = 2, 6
CHECKPOINTS = "train.checkpoint.every_steps=1000"  # one at the end
UNCHANGED = ("train.lr=1e-30", "train.weight_decay=0", "train.steps=1")


def tensors_of(path):
    """Returns {name: (dtype, shape, bytes)}, read by the format's definition."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    begin = 8 + length
    return {name: (entry["dtype"], entry["shape"],
                   content[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
            for name, entry in header.items()}


class InterchangeTest(harness.RunTest):

    def train(self, name, ranks, strategy, *sets, init=None, words=(), code=0):
        """Trains, writes run.h5 and returns the losses."""
        result = harness.run(
            ranks, ["train", HERE / f"{name}.yaml", "--cluster", self.folder / "cluster.yaml",
                    "--init", init or HERE / name, "--strategy", strategy, "--out",
                    self.folder / "run.h5", "--overwrite", *words,
                    *(word for text in sets for word in ("--set", text))])
        self.assertEqual(result.code, code, result.stderr)
        if code:
            return result
        with h5py.File(self.folder / "run.h5") as file:
            return file["iterations/loss"][:]

    def export(self, ranks, *words, out="exported", code=0):
        checkpoint, = (self.folder / "run.ckpt").glob("*.h5")
        result = harness.run(ranks, ["export", checkpoint, "--out", self.folder / out, *words])
        self.assertEqual(result.code, code, result.stderr)
        return result if code else self.folder / out

    def changed(self, name, **config):
        """Copies a model with changes of its config.json and returns the copy's folder."""
        folder = self.folder / "copy"
        shutil.copytree(HERE / name, folder)
        text = json.loads((folder / "config.json").read_text()) | config
        (folder / "config.json").write_text(json.dumps(text))
        return folder


class Training(InterchangeTest):

    def compare(self, name, ranks, strategy):
        theirs = numpy.array(json.loads((HERE / name / "losses.json").read_text()))
        away = numpy.abs(self.train(name, ranks, strategy) / theirs - 1)
        self.assertLessEqual(away[0], 1e-5)
        self.assertLessEqual(away.max(), 1e-4)

    def test_gpt2(self):
        for ranks, strategy in ((1, "dp"), (2, "fsdp"), (3, "megatron")):
            with self.subTest(ranks=ranks, strategy=strategy):
                self.compare("gpt2", ranks, strategy)

    def test_llama(self):
        for ranks, strategy in ((1, "dp"), (3, "fsdp"), (2, "megatron"),
                                (4, "megatron-sp")):
            with self.subTest(ranks=ranks, strategy=strategy):
                self.compare("llama", ranks, strategy)


    def test_mixtral(self):
        self.compare("mixtral", 2, "ep-deepspeed")

    def test_deepseek(self):
        self.compare("deepseek", 3, "fsdp")


class ThereAndBack(InterchangeTest):

    def test_every_tensor_comes_back(self):
        for name, ranks, strategy in (("gpt2", 2, "megatron"), ("llama", 3, "fsdp"),
                                      ("mixtral", 2, "ep-deepspeed"), ("deepseek", 3, "fsdp")):
            with self.subTest(name):
                self.train(name, ranks, strategy, CHECKPOINTS, *UNCHANGED)
                folder = self.export(ranks, "--overwrite")
                self.assertEqual(tensors_of(folder / "model.safetensors"),
                                 tensors_of(HERE / name / "model.safetensors"))
                ours = json.loads((folder / "config.json").read_text())
                theirs = json.loads((HERE / name / "config.json").read_text())
                same = {key: value for key, value in ours.items() if theirs.get(key) is not None}
                self.assertEqual(same, {key: theirs[key] for key in same})
                shutil.rmtree(self.folder / "run.ckpt")

    def test_own_names_and_half_precision(self):
        self.train("llama", 2, "fsdp", CHECKPOINTS, "model.precision=bf16")
        own = self.export(1, "--names", "hidup", out="own.safetensors")
        self.assertEqual(tensors_of(own)["layers.0.attention.q.weight"][:2],
                         ("F32", [20, 1, 5, 4]))
        half = self.export(2, "--precision", "bf16", out="half")
        self.assertEqual(tensors_of(half / "model.safetensors")["model.norm.weight"][:2],
                         ("BF16", [20]))
        losses = [self.train("llama", 1, "dp", *UNCHANGED, init=path)[0] for path in (own, half)]
        numpy.testing.assert_allclose(losses[0], losses[1], rtol=2e-3)

    def test_an_output_that_exists_stays(self):
        self.train("gpt2", 1, "dp", CHECKPOINTS, *UNCHANGED)
        folder = self.export(1)
        before = (folder / "model.safetensors").read_bytes()
        result = self.export(1, code=FILE)
        self.assertIn("--overwrite", result.stderr)
        self.assertEqual((folder / "model.safetensors").read_bytes(), before)
        result = self.export(1, "--names", "llama", out="other", code=USAGE)
        self.assertIn("the names of llama are for the family llama, but the model is of gpt", result.stderr)


class Evaluating(InterchangeTest):

    def test_the_checkpoint_and_what_was_exported(self):
        tokens = numpy.random.default_rng(1).integers(211, size=400).astype("<u2")
        header = numpy.zeros(256, "<i4")
        header[:3] = 20240520, 1, len(tokens)
        path = self.folder / "tokens.bin"
        path.write_bytes(header.tobytes() + tokens.tobytes())
        sets = ("data.kind=tokens", f"data.path={path}", "data.validation=0.2")
        self.train("llama", 2, "dp", *sets, CHECKPOINTS)
        exported = self.export(1)
        checkpoint, = (self.folder / "run.ckpt").glob("*.h5")
        losses = []
        for ranks, which in ((3, ("--resume", checkpoint)), (1, ("--init", exported)),
                             (2, ("--init", exported, "--strategy", "megatron"))):
            result = harness.run(ranks, [
                "evaluate", HERE / "llama.yaml", "--cluster", self.folder / "cluster.yaml", *which,
                "--json", *(word for text in sets for word in ("--set", text))])
            self.assertEqual(result.code, 0, result.stderr)
            losses.append(json.loads(result.stdout)["loss"])
        numpy.testing.assert_allclose(losses, losses[0], rtol=1e-6)

    def test_without_a_model(self):
        result = harness.run(1, ["evaluate", HERE / "llama.yaml", "--cluster",
                                 self.folder / "cluster.yaml", "--set", "data.validation=0.2",
                                 "--set", "data.kind=text", "--set", f"data.path={HERE}/theirs.py"])
        self.assertEqual(result.code, USAGE)
        self.assertIn("--resume CHECKPOINT or --init FILE", result.stderr)


class Refused(InterchangeTest):

    def refused(self, name, *texts, code=USAGE, **options):
        result = self.train(name, 2, "dp", code=code, **options)
        self.assertEqual(len(result.error_lines()), 1, result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)

    def test_a_config_that_differs(self):
        self.refused("llama", "config.json", "num_key_value_heads is 5, but model.kv_heads is 1",
                     "hidden_act is", init=self.changed("llama", num_key_value_heads=5,
                                                        hidden_act="gelu"))

    def test_tensors_of_another_family(self):
        self.refused("llama", "names of gpt2", "family gpt", init=HERE / "gpt2")
        alone = shutil.copy(HERE / "gpt2" / "model.safetensors", self.folder)
        self.refused("llama", "missing: model.embed_tokens.weight", "additional: ", init=alone,
                     words=["--names", "llama"])

    def test_a_truncated_file(self):
        path = self.folder / "short.safetensors"
        path.write_bytes((HERE / "gpt2" / "model.safetensors").read_bytes()[:-5])
        self.refused("gpt2", str(path), code=FILE, init=path)
        self.refused("gpt2", "nowhere", code=FILE, init="nowhere")

    def test_options(self):
        self.refused("gpt2", "did you mean gpt2?", words=["--names", "gpt"])
        self.refused("gpt2", "--init and --resume", words=["--resume", "x.ckpt.h5"])

    def test_patterns_without_a_parameter(self):
        result = self.train("gpt2", 1, "dp", "train.no_decay=[\"*.bias\", \"*.biass\"]", code=USAGE)
        self.assertIn("*.biass is like the name of no parameter", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
