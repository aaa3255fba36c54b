"""Searched strategies: without ranks, explained, and in training."""

import json
import re
import unittest

import h5py
import numpy

import harness

USAGE, INFEASIBLE, MEMORY, FILE = 2, 3, 4, 6
NAMES = ["dp", "zero1", "fsdp", "ep-deepspeed", "ep-fastmoe", "megatron", "megatron-sp", "ps"]
RATES = ["--set", "cluster.device.flops=100GFLOPS", "--set",
         "cluster.mesh=[{name: ranks, size: auto, bandwidth: 1GB/s, latency: 20us}]"]


class SearchTest(harness.RunTest):

    def setUp(self):
        super().setUp()
        self.write_deck(moe="{experts: 3, every: 2, router: top2}")

    def command(self, name, *args, rates=RATES):
        return harness.run(0, [name, self.deck, "--cluster", self.folder / "cluster.yaml", *rates,
                               *args], cwd=self.folder)

    def json(self, name, *args):
        result = self.command(name, "--json", *args)
        self.assert_done(result)
        return json.loads(result.stdout)


class WithoutRanks(SearchTest):

    def test_result(self):
        found = self.json("search", "--ranks", 4, "--baselines")
        self.assertEqual((found["layers"], found["ranks"]), (2, 4))
        for key in ("search_s", "peak_rss_bytes", "predicted_compute_s", "predicted_comm_s",
                    "predicted_peak_bytes", "microbatches", "lower_bound_s"):
            self.assertGreater(found[key], 0, key)
        self.assertGreaterEqual(found["gap"], 0)
        self.assertLessEqual(found["predicted_exposed_comm_s"], found["predicted_comm_s"])
        for name in NAMES:
            other = found["baselines"][name]
            self.assertTrue(other["feasible"], name)
            self.assertTrue(other["reason"] or
                            other["predicted_iteration_s"] == found["predicted_iteration_s"], name)
            self.assertGreater(other["predicted_peak_bytes"], 0)
            self.assertGreaterEqual(other["predicted_iteration_s"],
                                    found["predicted_iteration_s"], name)

    def test_ranks_share_the_work_where_the_link_is_fast_enough(self):
        fast, slow = (self.json("search", "--ranks", 4, "--set", "cluster.mesh=[{name: ranks, "
                                f"size: auto, bandwidth: {bandwidth}, latency: 1us}}]")
                      for bandwidth in ("100GB/s", "10MB/s"))
        self.assertGreater(fast["predicted_comm_s"], 0)
        self.assertGreater(slow["predicted_compute_s"], 1.5 * fast["predicted_compute_s"])

    def test_work_that_ranks_repeat_is_told(self):
        """search, explain and train print a line about it; the JSON has the ranks that suffice."""
        link = "cluster.mesh=[{{name: ranks, size: auto, bandwidth: {}, latency: 1us}}]".format
        fast, slow = ["--set", link("100GB/s")], ["--set", link("0.01MB/s")]
        line = (r"the 2 ranks along ranks repeat each other's work \((\d+) of \1 operations, 100 % of the "
                r"flops\): messages along ranks would cost more than sharing saves; 1 rank\(s\) would take "
                r"[0-9.]+ [mu]s per step, these 2 take [0-9.]+ [mu]s: rank 2 along ranks adds nothing\n")
        for name in ("search", "explain"):
            self.assertRegex(self.command(name, "--ranks", 2, *slow).stdout, "\nrepeated  " + line)
            self.assertNotIn("repeat each", self.command(name, "--ranks", 2, *fast).stdout)
            self.assertEqual(self.json(name, "--ranks", 2, *slow)["useful_ranks"], 1)
            self.assertEqual(self.json(name, "--ranks", 2, *fast)["useful_ranks"], 2)
        for rates, repeated in ((slow, True), (fast, False)):
            result = harness.run(2, self.train_args(
                "run.h5", ["--strategy", "search", "--overwrite", *RATES, *rates], "train.steps=2"))
            self.assert_done(result)
            if repeated:
                self.assertRegex(result.stderr, "hidup: repeated work: " + line)
            else:
                self.assertNotIn("repeated work", result.stderr)

    def test_plans_need_no_data_where_the_deck_says_all_sizes(self):
        missing = ["--ranks", 2, "--set", "data.path=nowhere.txt", "--set"]
        for name in ("search", "explain", "validate", "graph"):
            args = missing if name != "graph" else missing[2:]
            rates = ["--cluster", self.folder / "cluster.yaml", *RATES] if name != "graph" else []
            command = [name, self.deck, *rates, *args]
            known = harness.run(0, [*command, "model.vocab=300"])
            self.assert_done(known)
            if name != "graph":
                self.assertRegex(known.stdout, r"\ndata +not looked at: ")
            words = harness.run(0, [*command, "data.tokenizer=words", "--set", "model.vocab=auto"])
            self.assert_one_error(words, FILE, "nowhere.txt", "with a number in model.vocab")
        self.assertIn("nowhere.txt is not there", harness.run(
            0, ["validate", self.deck, "--set", "data.path=nowhere.txt"]).stdout)

    def test_microbatches_and_noise_are_those_of_the_deck(self):
        for count in (1, 3):
            found = self.json("search", "--ranks", 2, "--set", f"train.microbatches={count}")
            self.assertEqual(found["microbatches"], count)
        exact, noisy = (self.json("search", "--ranks", 2, "--set", f"cluster.profile_noise={noise}")
                        for noise in (0, 0.5))
        self.assertNotEqual(exact["predicted_compute_s"], noisy["predicted_compute_s"])

    def test_published_costs(self):
        found = self.json("search", "--ranks", 2, "--set", "cluster.cost.model=published")
        self.assertNotEqual(found["predicted_iteration_s"],
                            self.json("search", "--ranks", 2)["predicted_iteration_s"])
        self.assertIn("published", self.command("search", "--ranks", 2, "--set",
                                                "cluster.cost.model=published").stdout)

    def test_memory_that_is_not_enough(self):
        result = self.command("search", "--ranks", 2, "--set", "cluster.device.memory=1MiB",
                              "--set", "train.batch=4000")
        self.assert_one_error(result, INFEASIBLE, "1.00 MiB")

    def test_how_much_is_proven_is_said(self):
        found = self.json("search", "--ranks", 4, "--level", "fast")
        self.assertIsNone(found["gap"])
        self.assertIsNone(found["lower_bound_s"])
        self.assertFalse(found["timed_out"])
        self.assertIn("was not asked (--level)",
                      self.command("search", "--ranks", 4, "--level", "fast").stdout)
        self.assertRegex(self.command("search", "--ranks", 4, "--level", "thorough").stdout,
                         r"by its cost model at most [\d.]+ % slower than the best plan of this "
                         "search space")
        found = self.json("search", "--ranks", 4, "--time-limit", "1e-6")
        self.assertTrue(found["timed_out"])
        self.assertGreater(found["predicted_iteration_s"], 0)
        for limit, too_short in (("1e-6", True), ("600", False)):
            said = self.command("search", "--ranks", 4, "--time-limit", limit).stdout
            self.assertEqual("--time-limit was not kept" in said, too_short, said)
        self.assert_one_error(self.command("search", "--level", "faster"), USAGE, "--level")

    def test_numbers_of_the_command_line(self):
        """Numbers of the command line are checked before any file."""
        search = ["search", "none", "--cluster", "none"]
        generate = ["generate", "none", "--resume", "none", "--prompt", "a"]
        for command, option, texts in (
                (search, "--time-limit", ("nan", "inf", "0", "1e400", "0x2")),
                (search, "--ranks", ("", "0", "-1", "1.5", "3x", "1099511627776")),
                (["explain", "none", "--cluster", "none"], "--ranks", ("0x2",)),
                (["validate", "none"], "--ranks", ("0",)),
                (generate, "--tokens", ("-1",)),
                (generate, "--temperature", ("nan", "inf")),
                (generate, "--top-k", ("-2",)),
                (generate, "--seed", ("-1", "99999999999999999999"))):
            for text in texts:
                with self.subTest(command=command[0], option=option, text=text):
                    self.assert_one_error(harness.run(0, [*command, option, text]), USAGE,
                                          f"{option}: expected a", text or "nothing")

    def test_ends_at_every_magnitude(self):
        slow = ["--set", "cluster.mesh=[{name: ranks, size: 2, bandwidth: 1GB/s, latency: 1h}]"]
        for changes in (["--set", "cluster.device.flops=1MFLOPS", "--set", "train.batch=1000000"],
                        slow, [*slow, "--set", "train.batch=1000000000"]):
            result = self.command("search", "--ranks", 2, *changes)
            self.assert_done(result)
            self.assertIn("predicted", result.stdout)

    def test_many_axes(self):
        mesh = ", ".join(f"{{name: a{i}, size: 2, bandwidth: {i + 1}GB/s}}" for i in range(8))
        result = self.command("search", "--set", f"cluster.mesh=[{mesh}]", "--set",
                              "train.microbatches=2", "--time-limit", "2")
        self.assert_done(result)
        self.assertIn("on 256 rank(s)", result.stdout)

    def test_the_batch_that_would_fit(self):
        args = ["search", "--ranks", 2, "--time-limit", 100,  # however slow the machine
                "--set", "cluster.device.memory=1MiB", "--set"]
        told = re.search(r"\ntrain.batch (\d+) instead of 400 fits with \S+ KiB per rank: "
                         r"\S+ [mu]s per step, \S+ [mu]s per sequence\n",
                         self.command(*args, "train.batch=400").stderr)
        self.assert_done(self.command(*args, f"train.batch={told[1]}"))
        self.assert_one_error(self.command(*args, f"train.batch={int(told[1]) + 1}"), INFEASIBLE)

    def test_hints_are_kept(self):
        hints = self.folder / "hints.yaml"
        hints.write_text("operations:\n  - {op: '*.ffn.up', rule: [column]}\n")
        plan = self.json("explain", "--ranks", 2, "--hints", hints)
        rules = {operation["op"]: operation["rule"] for operation in plan["operations"]}
        self.assertEqual(rules["layers.0.ffn.up"], "column")
        self.assertIn("layers.0.ffn.up", plan["candidates"]["dp"]["reason"])
        hints.write_text("operations:\n  - {op: layers.0.ffn.up, rule: [colum]}\n")
        result = self.command("search", "--ranks", 2, "--hints", hints)
        self.assertEqual(result.code, USAGE)
        self.assertIn(f"{hints}:2:", result.stderr)
        self.assertIn("did you mean column?", result.stderr)
        result = self.command("train", "--strategy", "dp", "--hints", hints)
        self.assert_one_error(result, USAGE, "--hints and --strategy dp: hints restrict a search")

    def test_what_is_missing(self):
        self.assert_one_error(self.command("search", "--ranks", 2, rates=[]), USAGE,
                              "cluster.yaml:2:3: cluster.device.flops is missing",
                              "cluster.profile")
        self.assert_one_error(self.command("search", "--ranks", 2, rates=RATES[:2]), USAGE,
                              "cluster.mesh[0].bandwidth")
        self.assert_one_error(self.command("search", "--ranks", 2, "--set",
                                           "cluster.profile=nowhere.yaml"), FILE, "nowhere.yaml")


class Explained(SearchTest):

    def test_classes_of_devices(self):
        self.assertNotIn("classes", self.json("explain", "--ranks", 2, "--strategy", "dp"))
        args = ["--ranks", 3, "--what-if", "--set", "cluster.devices=[{flops: 4GFLOPS, memory: 2GiB}, "
                                                    "{count: 2, flops: 2GFLOPS, memory: 1GiB}]"]
        plan = self.json("explain", *args)
        fast, slow = plan["classes"]
        self.assertEqual((fast["ranks"], slow["ranks"]), ("0", "1, 2"))
        self.assertEqual((fast["memory_limit_bytes"], slow["memory_limit_bytes"]), (2 << 30, 1 << 30))
        self.assertAlmostEqual(fast["flops_part"] + slow["flops_part"], 1)
        for each in fast, slow:
            self.assertAlmostEqual(each["compute_s"] + each["wait_s"], plan["predicted_iteration_s"])
        ranks = next(change for change in plan["what_if"] if change["kind"] == "ranks")
        self.assertEqual((ranks["feasible"], ranks["reason"]),
                         (False, "cluster.devices does not say which devices they have"))
        text = self.command("explain", *args).stdout
        self.assertRegex(text, r"\n  rank 0, 0.004 TFLOPS +\S+ %  computes +\S+ [um]s, waits .* of 2.00 GiB\n")

    def test_where_the_time_goes(self):
        plan = self.json("explain", "--ranks", 2, "--strategy", "dp")
        self.assertEqual(plan["strategy"], "dp")
        operations = {operation["op"]: operation for operation in plan["operations"]}
        up = operations["layers.0.ffn.up"]
        self.assertEqual((up["rule"], up["inputs"], up["output"]),
                         ("batch", ["[S(0)]", "[R]"], "[S(0)]"))
        self.assertGreater(up["backward"]["compute_s"], up["forward"]["compute_s"])
        parts = [*(o[phase] for o in plan["operations"] for phase in ("forward", "backward")),
                 *(bucket["times"] for bucket in plan["buckets"])]
        for key in ("compute_s", "comm_s", "exposed_comm_s"):
            self.assertAlmostEqual(sum(part[key] for part in parts), plan[f"predicted_{key}"],
                                   delta=1e-9)
        end = max(event["end_s"] for event in plan["timeline"])
        self.assertAlmostEqual(end, plan["predicted_iteration_s"], delta=1e-9)
        event = next(event for event in plan["timeline"]
                     if (event["operation"], event["input"]) == ("layers.0.ffn.up", "weight"))
        work = {key: event[key] for key in ("opcode", "dtype", "flops", "bytes", "sizes")}
        rows, summed, columns = 3 * 17, 24, 40  # rank 0 has three of five sequences
        self.assertEqual(work, dict(
            opcode="matmul_backward_weight_bias", dtype="f32",
            flops=2 * rows * summed * columns + rows * columns,
            bytes=4 * (rows * summed + rows * columns + summed * columns + columns),
            sizes=[rows, summed, columns]))
        self.assertEqual(sum(plan["memory"].values()), plan["predicted_peak_bytes"])
        self.assertEqual({p["storage"] for p in plan["parameters"]}, {"[R]"})
        for name in NAMES:
            self.assertIn(name, plan["candidates"])

    def test_text(self):
        result = self.command("explain", "--ranks", 2, "--strategy", "fsdp")
        self.assert_done(result)
        for text in ("strategy  fsdp", "layers.*.ffn.up", "gradients reduce_scatter",
                     "megatron-sp", "more exposed communication"):
            self.assertIn(text, result.stdout)


    def test_a_strategy_that_is_given_is_not_searched_for(self):
        plan = self.json("explain", "--ranks", 2, "--strategy", "dp")
        self.assertNotIn("search", plan["candidates"])
        self.assertNotIn("what_if", plan)
        self.assertIn("search", self.json("explain", "--ranks", 2)["candidates"])

    def test_what_if(self):
        """A search of the changed cluster finds the same step, or less than today's strategy would gain."""
        hints = self.folder / "hints.yaml"
        hints.write_text("operations:\n  - {op: '*.ffn.up', rule: [column]}\n")
        mesh = "cluster.mesh=[{{name: ranks, size: auto, bandwidth: {}, latency: 20us}}]".format
        memory = ["--set", "cluster.device.memory=1GiB"]
        args = ["--ranks", 2, "--hints", hints, *memory]
        plan = self.json("explain", "--what-if", "--strategy", "dp", *args)
        changes = {change["what"]: change for change in plan["what_if"]}
        now = self.json("search", *args)["predicted_iteration_s"]
        self.assertAlmostEqual(plan["what_if_now_s"], now, delta=1e-9)
        for what, changed in (
                ("bandwidth of axis ranks x 2", [*args, "--set", mesh("2GB/s")]),
                ("memory x 2", ["--ranks", 2, "--hints", hints, "--set", "cluster.device.memory=2GiB"]),
                ("ranks along axis ranks x 2", ["--ranks", 4, "--hints", hints, *memory]),
                ("without layers.*.ffn.up by column", ["--ranks", 2, *memory])):
            step = changes[what]["predicted_iteration_s"]
            found = self.json("search", *changed)["predicted_iteration_s"]
            least = found if "ranks along" in what else min(found, now)
            self.assertAlmostEqual(step, least, delta=1e-9, msg=what)
            self.assertAlmostEqual(changes[what]["gain"], 1 - step / now, delta=1e-9, msg=what)
            self.assertTrue(changes[what]["feasible"], what)
        self.assertGreater(changes["without layers.*.ffn.up by column"]["gain"], 0)
        text = self.command("explain", "--what-if", "--strategy", "dp", *args).stdout
        self.assertRegex(text, r"\n  bandwidth of axis ranks x 2 +[0-9.]+ [mu]s  ")


class Trained(SearchTest):

    def test_default_is_the_search_with_a_measured_profile(self):
        one = self.train(1)
        run = self.folder / "searched.h5"
        args = self.train_args(run.name, "cluster.profile=auto")[:-2]  # without a strategy
        self.assertNotIn("--strategy", args)
        self.assert_done(harness.run(2, [*args, "--dump-gradients", self.folder / "g.h5"]))
        with h5py.File(run) as file:
            attributes = dict(file["strategy"].attrs)
            text = file["strategy/text"].asstr()[()]
            loss = file["iterations/loss"][:]
        numpy.testing.assert_allclose(loss, one.loss, rtol=harness.STEP_TOLERANCE)
        self.assertGreater(attributes["search_s"], 0)
        self.assertIn("\nstages:\n  - embedding\n", text)
        predicted = re.search(r"\npredicted: {iteration_s: ([0-9.e-]+),", text)
        self.assertAlmostEqual(float(predicted[1]) / attributes["predicted_iteration_s"], 1, 4)
        # The strategy's own text gives the same strategy.
        (self.folder / "again.yaml").write_text(text)
        again = self.train(2, ["--strategy", self.folder / "again.yaml"])
        with h5py.File(again.path) as file:
            self.assertEqual(file["strategy"].attrs["hash"], attributes["hash"])
            self.assertEqual(file["strategy"].attrs["search_s"], 0)

    def test_file_of_a_search(self):
        out = self.folder / "found.yaml"
        result = self.command("search", "--ranks", 2, "--strategy-out", out)
        self.assert_done(result)
        self.assertIn(str(out), result.stdout)
        self.assert_equal_runs(self.train(1), self.train(2, ["--strategy", out]))
        self.assert_one_error(self.command("search", "--ranks", 2, "--strategy-out", out), FILE,
                              str(out))

    def test_without_times(self):
        args = self.train_args("run.h5", ["--strategy", "search"])
        self.assert_one_error(harness.run(2, args), USAGE, "--strategy search", "cluster.profile")

    def test_far_beyond_the_memory(self):
        """The error is the same with a measured profile, with rates, and without any times."""
        batch = "train.batch=1000000000"
        slow = [*RATES, "--set", "cluster.device.flops=1MFLOPS"]
        for more in ("cluster.profile=auto",), (slow,), ():
            result = harness.run(2, self.train_args("out.h5", batch, *more), cwd=self.folder,
                                 timeout=60)
            self.assert_one_error(result, MEMORY, "the plan needs")

    def test_within_the_memory(self):
        args = self.train_args("run.h5", "cluster.device.memory=1MiB", "train.batch=4000", RATES,
                               ["--strategy", "search"])
        self.assert_one_error(harness.run(2, args), INFEASIBLE, "1.00 MiB")


if __name__ == "__main__":
    unittest.main()
