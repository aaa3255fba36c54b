"""hidup profile, and train's use of it: predictions in the timing file."""

import json
import re
import unittest

import h5py
import numpy

import harness

ATTRIBUTES = [f"predicted_{name}" for name in
              ("iteration_s", "compute_s", "comm_s", "exposed_comm_s", "peak_bytes")]


class ProfileTest(harness.RunTest):
    measured = None  # the text of a profile of two ranks, shared by most tests

    def setUp(self):
        super().setUp()
        self.profile = self.folder / "profile.yaml"

    def measure(self, ranks, *more):
        return harness.run(ranks, ["profile", self.deck, "--cluster", self.folder / "cluster.yaml",
                                   "--out", self.profile, *more])

    def write_profile(self):
        if ProfileTest.measured is None:
            self.assert_done(self.measure(2))
            ProfileTest.measured = self.profile.read_text()
        self.profile.write_text(ProfileTest.measured)

    def train_with(self, ranks, profile, **options):
        return harness.run(ranks, self.train_args("run.h5", f"cluster.profile={profile}",
                                                  "train.steps=3", ["--overwrite"]), **options)

    def test_a_profile_and_its_prediction(self):
        self.write_profile()
        text = self.profile.read_text()
        self.assertRegex(text, r"\nrates: .*\n  products: {f32: [0-9.e+]+}\n  memory: [0-9.e+]+\n")
        for part in ("op: matmul_backward_weight", "op: matmul,", "op: matmul_bias,", "op: bias,", "op: adam", "op: attention", "op: all_to_all",
                     "slowdown:", "hosts: [0, 0]"):
            self.assertIn(part, text)
        result = self.train_with(2, self.profile)
        self.assert_done(result)
        self.assertIn("hidup: predicted: ", result.stderr)
        self.assertIn("        predicted ", result.stdout)
        with h5py.File(self.folder / "run.h5") as file:
            attributes = file["strategy"].attrs
            step, compute, comm, exposed, peak = (attributes[name] for name in ATTRIBUTES)
            start, length = file["program/predicted_start_s"][:], file["program/predicted_s"][:]
            stream = file["program/stream"].asstr()[:]
            # The peak is the arena and some bytes for the step's number.
            self.assertLessEqual(abs(peak / file["ranks/peak_bytes"][0] - 1), 0.03)
        self.assertTrue((start >= 0).all() and (length >= 0).all())
        self.assertLessEqual((start + length).max(), step)
        self.assertAlmostEqual(length[stream == "compute"].sum(), compute, places=9)
        self.assertAlmostEqual(length[stream == "comm"].sum(), comm, places=9)
        self.assertGreater(compute, 0)
        self.assertGreater(comm, 0)
        self.assertTrue(0 <= exposed <= comm)
        # Instructions of a stream do not overlap.
        for name in ("compute", "comm"):
            ends = (start + length)[stream == name]
            self.assertTrue((start[stream == name][1:] >= ends[:-1] - 1e-9).all())

    def test_how_far_a_step_is_from_its_floor(self):
        line = (r"\n        ([0-9.]+) times the least time of its computation, [0-9.]+ m?u?s \(products at [0-9.]+ [GT]flop/s, "
                r"memory at [0-9.]+ GB/s on a rank, as profiled\)\nmemory ")
        self.assert_done(self.measure(2, "--set", "model.precision=bf16"))
        text = self.profile.read_text()
        self.assertRegex(text, r"\n  products: {f32: [0-9.e+]+, bf16: [0-9.e+]+}\n")
        result = self.train_with(2, self.profile)
        self.assert_done(result)
        found = re.search(line, result.stdout)
        self.assertIsNotNone(found, result.stdout)
        with h5py.File(self.folder / "run.h5") as file:
            floor, wall = file["strategy"].attrs["floor_s"], file["iterations/wall_s"][:].mean()
        self.assertAlmostEqual(float(found[1]) / (wall / floor), 1, delta=0.01 + 0.01 * floor / wall)
        # A profile of an older version has no rates.
        self.profile.write_text(re.sub(r"\nrates: .*\n  products: .*\n  memory: .*\n", "\n", text))
        result = self.train_with(2, self.profile)
        self.assert_done(result)
        self.assertNotIn("floor", result.stdout)
        with h5py.File(self.folder / "run.h5") as file:
            self.assertNotIn("floor_s", file["strategy"].attrs)

    def test_measured_times_beside_predicted_ones_and_in_the_profile(self):
        self.write_profile()
        run = self.folder / "run.h5"
        self.assert_done(self.train_with(2, self.profile))
        result = harness.run(0, ["explain", "--measured", run, "--json"])
        self.assert_done(result)
        told = json.loads(result.stdout)
        self.assertEqual(told["steps"], [2, 3])
        with h5py.File(run) as file:
            names = [(re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", name), kind)
                     for name, kind in zip(file["program/name"].asstr()[:], file["program/kind"].asstr()[:])]
            timeline = {name: file[f"timeline/{name}"][:] for name in file["timeline"]}
            predicted = file["program/predicted_s"][:]
        times = (timeline["end_s"] - timeline["start_s"]).reshape(3, 2, len(names))  # step, rank
        lengths = times[1:].max(axis=1).min(axis=0)  # the lower of two is the median
        for row in told["operations"]:
            alike = [i for i, (name, _) in enumerate(names) if name == row["name"]]
            if row["count"] == len(alike) and names[alike[0]][1] != "collective":
                self.assertAlmostEqual(row["measured_s"], lengths[alike].sum(), places=12)
                self.assertAlmostEqual(row["predicted_s"], predicted[alike].sum(), places=12)
        off = [abs(row["measured_s"] - row["predicted_s"]) for row in told["operations"]]
        self.assertEqual(off, sorted(off, reverse=True))
        text = harness.run(0, ["explain", "--measured", run]).stdout
        self.assertLess(len(text.splitlines()), 45)
        self.assertRegex(text, r"\nwall +\d")

        better = self.folder / "better.yaml"
        absorb = ["profile", self.deck, "--cluster", self.folder / "cluster.yaml", "--absorb", run,
                  "--out", better]
        self.assert_one_error(harness.run(0, absorb), 2, "cluster.profile: --absorb adds to a profile")
        absorb += ["--set", f"cluster.profile={self.profile}"]
        result = harness.run(0, absorb)
        self.assert_done(result)
        self.assertRegex(result.stdout, r"operations +[1-9]\d* taken from the run")
        self.assertNotEqual(better.read_text(), self.profile.read_text())
        self.assert_done(self.train_with(2, better))
        for other, code, reason in (("model.ffn=48", 2, "its strategy is not for these decks"),
                                    ("train.clip_norm=0", 6, "its run had another program")):
            result = harness.run(0, [*absorb, "--set", other, "--overwrite"])
            self.assert_one_error(result, code, f"{run}: {reason}")

        # HDF5 follows wrong references to texts without a check.
        with h5py.File(run) as file:
            place = file["program/name"].id.get_chunk_info(0).byte_offset
        content = bytearray(run.read_bytes())
        for text in range(8):  # length, address of the heap, number in it
            content[place + 16 * text + 12:place + 16 * text + 16] = b"\xff\xff\xff\0"
        run.write_bytes(content)
        result = harness.run(0, ["explain", "--measured", run])
        self.assert_one_error(result, 6, f"{run}: ")

    def test_one_that_does_not_fit_is_refused(self):
        self.write_profile()
        self.assert_one_error(self.train_with(1, self.profile), 2, "profile.yaml does not fit",
                              "ranks=2", "ranks=1")
        self.assert_one_error(self.measure(2), 6, "exists", "--overwrite")
        text = self.profile.read_text()
        self.profile.write_text(text.replace("signal_s", "signal_z"))
        result = self.train_with(2, self.profile)
        self.assertEqual(result.code, 2)
        self.assertIn("unknown key signal_z: did you mean signal_s?", result.stderr)
        self.assert_one_error(self.train_with(2, self.folder / "gone.yaml"), 6, "gone.yaml")

    def test_train_keeps_one(self):
        cache = self.folder / "cache"
        environment = {"env": {"XDG_CACHE_HOME": str(cache)}}
        first = self.train_with(2, "auto", **environment)
        self.assert_done(first)
        self.assertIn("profile: measured in", first.stderr)
        kept, = (cache / "hidup").iterdir()
        text = kept.read_text()
        for _ in range(3):  # a busy machine may look different each time
            second = self.train_with(2, "auto", **environment)
            self.assert_done(second)
            if "measured in" not in second.stderr:
                break
            text = kept.read_text()
        self.assertRegex(second.stderr, f"profile: {kept}, looked at in [0-9.]+ m?s")
        self.assertEqual(kept.read_text(), text)
        # Another model has another profile.
        self.write_deck(ffn=48)
        self.assert_done(self.train_with(2, "auto", **environment))
        self.assertEqual(len(list((cache / "hidup").iterdir())), 2)
        # A broken profile is measured anew.
        self.write_deck()
        kept.write_text(text[:200])
        third = self.train_with(2, "auto", **environment)
        self.assert_done(third)
        self.assertIn("the profile is measured anew", third.stderr)
        self.assertIn("operations:", kept.read_text())

    def test_one_that_no_longer_holds_is_measured_again(self):
        cache = self.folder / "cache"
        environment = {"env": {"XDG_CACHE_HOME": str(cache)}}
        self.assert_done(self.train_with(2, "auto", **environment))
        kept, = (cache / "hidup").iterdir()
        text = kept.read_text()
        again = f"profile: {kept} is measured again: all_reduce of "
        for name, pattern, wrong in (
                ("a faster link", r"alone_s: [^,]+", "alone_s: 0.009"),
                ("a slower link", r"bytes: (?!64,)(\d+), alone_s: [^,]+", r"bytes: \1, alone_s: 1e-6"),
                ("a longer latency", r"bytes: 64, alone_s: [^,]+", "bytes: 64, alone_s: 0.003")):
            with self.subTest(name):
                kept.write_text(re.sub(pattern, wrong, text))
                result = self.train_with(2, "auto", **environment)
                self.assert_done(result)
                self.assertIn(again, result.stderr)
                self.assertIn("measured in", result.stderr)
        self.assertIn("64 B along ranks takes ", result.stderr)
        self.assertIn(", not 3.00 ms", result.stderr)
        kept.write_text(re.sub(r"launch_s: \S+", "launch_s: 1e5", text))
        result = self.train_with(2, "auto", **environment)
        self.assert_done(result)
        self.assertIn(f"the profile is measured anew: {kept} has launch_s of 1e+05 s", result.stderr)

    def test_a_named_one_is_taken_as_it_is(self):
        self.write_profile()
        wrong = re.sub(r"alone_s: [^,]+", "alone_s: 0.009", self.profile.read_text())
        self.profile.write_text(wrong)
        result = self.train_with(2, self.profile)
        self.assert_done(result)
        self.assertIn(f"warning: cluster.profile: {self.profile} may mislead: all_reduce of ",
                      result.stderr)
        self.assertNotIn("measured in", result.stderr)
        self.assertEqual(self.profile.read_text(), wrong)

    def test_where_none_can_be_kept(self):
        (self.folder / "file").touch()
        for environment, reason in (({"XDG_CACHE_HOME": str(self.folder / "file")}, "Not a directory"),
                                    ({"XDG_CACHE_HOME": str(self.folder / (300 * "x"))},
                                     "File name too long"),
                                    ({"XDG_CACHE_HOME": "", "HOME": "relative"},
                                     "neither XDG_CACHE_HOME nor HOME is an absolute path")):
            with self.subTest(reason):
                result = self.train_with(1, "auto", env=environment, cwd=self.folder)
                self.assert_done(result)
                self.assertFalse((self.folder / "relative").exists())
                self.assertIn("warning: the profile is not kept: ", result.stderr)
                self.assertIn(reason, result.stderr)
                self.assertRegex(result.stderr, r"profile: measured in [0-9.]+ s\n")

    def test_one_rank_has_a_prediction_too(self):
        self.assert_done(self.train_with(1, "auto"))
        with h5py.File(self.folder / "run.h5") as file:
            self.assertGreater(file["strategy"].attrs["predicted_iteration_s"], 0)
            self.assertEqual(file["strategy"].attrs["predicted_comm_s"], 0)

    def test_none(self):
        result = self.train_with(2, "none")
        self.assert_done(result)
        self.assertNotIn("predicted", result.stdout + result.stderr)
        self.assertNotIn("floor", result.stdout)
        with h5py.File(self.folder / "run.h5") as file:
            self.assertFalse(set(ATTRIBUTES) & set(file["strategy"].attrs))
            self.assertNotIn("predicted_s", file["program"])

    def test_without_overlap_the_result_is_the_same(self):
        beside = self.train(2, "train.microbatches=2", steps=4)
        in_turn = self.train(2, "train.microbatches=2", "train.overlap=off", steps=4)
        numpy.testing.assert_array_equal(beside.loss, in_turn.loss)
        with h5py.File(in_turn.path) as file:
            numpy.testing.assert_allclose(file["ranks/exposed_comm_s"][:], file["ranks/comm_s"][:],
                                          rtol=1e-9)


if __name__ == "__main__":
    unittest.main(verbosity=2)
