"""analysis tokenize: token files that hidup reads, and back.

The tokenizers package is optional: a module of that name with a tokenizer by characters replaces it.
Where the package is installed, one of its tokenizers is tried, too.
"""

import importlib.util
import json
import os
import pathlib
import struct
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "runs"))

import harness  # noqa: E402

STAND_IN = '''
import json, types

class Tokenizer:
    """tokenizer.json is {token: number} of single characters, but for "<end>"."""

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary

    @staticmethod
    def from_file(path):
        with open(path) as file:
            return Tokenizer(json.load(file))

    def token_to_id(self, token):
        return self.vocabulary.get(token)

    def get_vocab_size(self):
        return max(self.vocabulary.values()) + 1

    def encode(self, text, add_special_tokens):
        assert not add_special_tokens
        return types.SimpleNamespace(ids=[self.vocabulary[c] for c in text])

    def decode(self, tokens, skip_special_tokens):
        assert not skip_special_tokens
        names = {number: token for token, number in self.vocabulary.items()}
        return "".join(names[token] for token in tokens)
'''

DECK = """
model: {family: gpt, layers: 1, hidden: 8, heads: 2, sequence: 4}
data: {kind: tokens, path: tokens.bin}
train: {batch: 2, steps: 1}
"""


class Tokenize(harness.RunTest):

    def setUp(self):
        super().setUp()
        (self.folder / "tokenizers.py").write_text(STAND_IN)
        self.vocabulary(**{"a": 0, "b": 7, "\r": 2, "\n": 3, "<end>": 9})

    def vocabulary(self, **tokens):
        (self.folder / "tokenizer.json").write_text(json.dumps(tokens))

    def tokenize(self, *words, code=0, stand_in=True):
        path = {"PYTHONPATH": str(self.folder)} if stand_in else {}
        result = subprocess.run(
            [sys.executable, str(harness.SOURCE / "analysis"), "tokenize", "--tokenizer",
             "tokenizer.json", *words], cwd=self.folder, env=os.environ | path,
            capture_output=True, check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stdout.decode() if code == 0 else result.stderr.decode()

    def write(self, name, text):
        (self.folder / name).write_bytes(text.encode())

    def test_there_and_back(self):
        self.write("one.txt", "ab\r\na")
        self.write("two.txt", "bb")
        said = self.tokenize("--out", "tokens.bin", "--end", "<end>", "one.txt", "two.txt")
        self.assertIn("9 tokens of a vocabulary of 10", said)
        content = (self.folder / "tokens.bin").read_bytes()
        self.assertEqual(struct.unpack_from("<3i", content), (20240520, 1, 9))
        self.assertEqual(struct.unpack("<9H", content[1024:]), (0, 7, 2, 3, 0, 9, 7, 7, 9))

    def test_hidup_reads_it(self):
        self.write("one.txt", "abbab\nab" * 5)
        self.tokenize("--out", "tokens.bin", "one.txt")
        self.write("deck.yaml", DECK)
        result = harness.run(0, ["validate", self.folder / "deck.yaml"])
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("40 tokens", result.stdout + result.stderr)
        self.assertEqual(self.tokenize("--back", "tokens.bin"), "abbab\nab" * 5)

    def test_refused(self):
        self.write("one.txt", "ab")
        self.write("no.txt", "x")
        (self.folder / "binary").write_bytes(b"\xff\xfe")
        self.tokenize("--out", "tokens.bin", "one.txt")
        self.assertIn("--overwrite", self.tokenize("--out", "tokens.bin", "one.txt", code=2))
        self.tokenize("--out", "tokens.bin", "one.txt", "--overwrite")
        self.assertIn("no such token", self.tokenize("--out", "t", "--end", "x", "one.txt", code=2))
        self.assertIn("no UTF-8", self.tokenize("--out", "t", "binary", code=2))
        self.assertIn("no token file", self.tokenize("--back", "one.txt", code=2))
        self.write("short.bin", "x" * 1030)
        self.assertIn("no token file", self.tokenize("--back", "short.bin", code=2))
        self.vocabulary(a=65535, b=65536)
        self.assertIn("at most 65535", self.tokenize("--out", "t", "one.txt", code=2))
        (self.folder / "tokenizer.json").unlink()
        self.assertIn("no such file", self.tokenize("--out", "t", "one.txt", code=2))

    @unittest.skipUnless(importlib.util.find_spec("tokenizers"), "the package tokenizers is missing")
    def test_the_package(self):
        import tokenizers
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=300, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
        text = (HERE / "theirs.py").read_text() + "héllo\r\n  wörld"
        tokenizer.train_from_iterator([text], trainer)
        tokenizer.save(str(self.folder / "tokenizer.json"))
        self.write("one.txt", text)
        self.tokenize("--out", "tokens.bin", "one.txt", stand_in=False)
        self.assertEqual(self.tokenize("--back", "tokens.bin", stand_in=False), text)

    @unittest.skipIf(importlib.util.find_spec("tokenizers"), "the package tokenizers is there")
    def test_without_the_package(self):
        self.assertIn("pip install tokenizers",
                      self.tokenize("--out", "t", "one.txt", code=2, stand_in=False))


if __name__ == "__main__":
    unittest.main(verbosity=2)
