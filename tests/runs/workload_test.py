"""Workloads: experts that have set loads, on any ranks, after a restart, and in every repetition."""

import json
import subprocess
import sys
import unittest

import h5py
import numpy

import harness

FILE, LAYERS, EXPERTS, TOKENS = 6, 2, 4, 5 * 17
TRACE = ("# two samples of two layers\n"
         "40 20 15 10\n10 10 10 10\n\n"
         "0 0 1 3\n85 85 0 0\n\n")
# The choices of 85 tokens by the trace.
LOADS = [[[80, 40, 30, 20], [43, 43, 42, 42]], [[0, 0, 85, 85], [85, 85, 0, 0]]]
DROPLESS, SLOTS = "model.moe.capacity_factor=none", "model.moe.capacity_factor=1.25"


def loads(path):
    with h5py.File(path) as file:
        return file["experts/tokens"][:]


class WorkloadTest(harness.RunTest):

    def setUp(self):
        super().setUp()
        self.trace = self.folder / "trace.txt"
        self.trace.write_text(TRACE)
        self.set_router("trace")

    def set_router(self, router, **more):
        moe = dict(experts=EXPERTS, every=1, router=router, **more)
        inner = ", ".join(f"{key}: {value}" for key, value in moe.items())
        self.write_deck(moe=f"{{{inner}}}")
        if router == "trace":
            text = self.deck.read_text()
            self.deck.write_text(text.replace("  tokenizer:", "  trace: trace.txt\n  tokenizer:"))

    def test_all_ranks_give_tokens_the_same_experts(self):
        mesh = "cluster.mesh=[{name: a, size: 2}, {name: b, size: auto}]"
        for capacity in (DROPLESS, SLOTS):
            one = self.train(1, capacity, steps=6)
            for step, found in enumerate(loads(one.path)):
                numpy.testing.assert_array_equal(found, LOADS[step % 2])
            runs = [(3, "ep-fastmoe"), (2, "megatron"),
                    (2, "pipeline", "train.pipeline=1f1b", "train.microbatches=3")]
            if capacity == DROPLESS:
                runs += [(2, "dp", "train.microbatches=2"), (2, "fsdp", "train.accumulate=2"),
                         (4, "a=megatron-sp,b=ep-deepspeed", mesh)]
            for ranks, strategy, *more in runs:
                with self.subTest(capacity=capacity, ranks=ranks, strategy=strategy):
                    other = self.train(ranks, ["--strategy", strategy], capacity, *more, steps=6)
                    self.assert_equal_runs(one, other)
                    numpy.testing.assert_array_equal(loads(other.path), loads(one.path))

    def test_every_workload_learns_its_weights(self):
        for router in ("moving", "burst", "log-normal", "ragged"):
            with self.subTest(router=router):
                self.set_router(router, capacity_factor="none", score="sigmoid")
                one = self.train(1, steps=8)
                self.assertIn("layers.0.moe.router.weight", one.gradients)
                other = self.train(2, ["--strategy", "ep-fastmoe"], steps=8)
                self.assert_equal_runs(one, other)
                numpy.testing.assert_array_equal(loads(other.path), loads(one.path))

    def test_repetition_and_restart_are_exact(self):
        settings = [DROPLESS, ["--strategy", "ep-fastmoe"], "train.checkpoint.every_steps=3",
                    f"train.checkpoint.folder={self.folder / 'saved'}"]
        whole = self.train(2, *settings, steps=8)
        newest = sorted((self.folder / "saved").glob("step-*.ckpt.h5"))
        self.assertEqual(newest[0].name, "step-00000003.ckpt.h5")
        args = self.train_args("again.h5", "train.steps=8", *settings[:2],
                               ["--resume", newest[0]])
        self.assert_done(harness.run(2, args))
        with h5py.File(self.folder / "again.h5") as file:
            numpy.testing.assert_array_equal(file["iterations/loss"][:], whole.loss[3:])
        numpy.testing.assert_array_equal(loads(self.folder / "again.h5"), loads(whole.path)[3:])
        again = self.train(2, *settings[:2], steps=8)
        numpy.testing.assert_array_equal(again.loss, whole.loss)
        for name, expected in whole.gradients.items():
            numpy.testing.assert_array_equal(expected, again.gradients[name], name)

    def test_evaluates_and_generates(self):
        settings = [DROPLESS, "model.vocab=256", f"train.checkpoint.folder={self.folder / 'saved'}",
                    "train.checkpoint.every_steps=2"]
        self.train(1, *settings, steps=2)
        checkpoint = self.folder / "saved" / "step-00000002.ckpt.h5"
        model = [self.deck, "--resume", checkpoint, "--set", DROPLESS, "--set", "model.vocab=256"]
        found = []
        for ranks in (1, 2):
            result = harness.run(ranks, ["evaluate", *model, "--cluster", self.folder / "cluster.yaml",
                                         "--set", f"data.validation={self.folder / 'text.txt'}",
                                         "--strategy", "dp", "--json"])
            self.assert_done(result)
            found.append(json.loads(result.stdout)["loss"])
        self.assertAlmostEqual(found[0], found[1], delta=harness.STEP_TOLERANCE * found[0])
        result = harness.run(0, ["generate", *model, "--prompt", "the rank", "--tokens", "3"])
        self.assert_done(result)

    def test_wrong_traces(self):
        for text, place in [(TRACE.replace("10 10 10 10", "10 10 ten 10"), "trace.txt:3: "),
                            (TRACE.replace("10 10 10 10", "10 10 10"), "trace.txt:3: "),
                            ("1 1 1 1\n", "trace.txt:1: expected 2 line(s) in a sample")]:
            self.trace.write_text(text)
            result = harness.run(2, self.train_args("run.h5", DROPLESS))
            self.assert_one_error(result, FILE, place, "expected")
        self.trace.unlink()
        result = harness.run(0, self.train_args("run.h5", DROPLESS))
        self.assert_one_error(result, FILE, "trace.txt")

    def analysis(self, *words):
        return subprocess.run([sys.executable, harness.SOURCE / "analysis", "loads", *words],
                              capture_output=True, text=True)

    def test_loads_of_a_run_are_a_trace(self):
        one = self.train(1, DROPLESS, steps=4)
        made = self.folder / "made.txt"
        self.assertEqual(self.analysis(one.path, "--out", made).returncode, 0)
        self.trace.write_text(made.read_text())
        numpy.testing.assert_array_equal(loads(self.train(2, DROPLESS, steps=4).path),
                                         loads(one.path))

    def test_a_table_is_a_trace(self):
        table, made = self.folder / "table.csv", self.folder / "made.txt"
        table.write_text("iter,layer,e0,e1\n1,0,3,4\n1,1,5,6\n11,0,0,9\n11,1,1,1\n")
        self.assertEqual(self.analysis(table, "--out", made).returncode, 0)
        self.assertEqual(made.read_text(), "# tokens of each of 2 experts in 2 layer(s), 2 sample(s)\n"
                         "3 4\n5 6\n\n0 9\n1 1\n\n")
        self.assertEqual(self.analysis(table, "--out", made, "--every", "2").returncode, 0)
        self.assertIn("\n3 4\n5 6\n\n", made.read_text())
        for text, wanted in [("a,b\n", "table.csv:1: expected the names iter, layer"),
                             ("iter,layer,e0\n1,0,x\n", "table.csv:2: expected 3 whole numbers"),
                             ("iter,layer,e0\n1,0,1\n1,2,1\n",
                              "table.csv:3: expected layer 1 of iteration 1, found 2")]:
            table.write_text(text)
            result = self.analysis(table, "--out", made)
            self.assertEqual(result.returncode, 2)
            self.assertIn(wanted, result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
