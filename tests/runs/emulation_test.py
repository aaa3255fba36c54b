"""Runs with the times of another cluster and true losses."""

import unittest

import h5py
import numpy

import harness

USAGE, MEMORY, FILE = 2, 4, 6
STEPS = 6


class EmulatedRun(harness.RunTest):

    def setUp(self):
        super().setUp()
        self.write_cluster()

    def write_cluster(self, flops="flops: 500MFLOPS", bandwidth="bandwidth: 50MB/s", **keys):
        lines = {"emulate": "on", "profile": "none", **keys}
        (self.folder / "cluster.yaml").write_text(
            "cluster:\n"
            f"  device: {{kind: cpu, threads: 1, {flops}}}\n"
            f"  mesh: [{{name: ranks, size: auto, latency: 50us, {bandwidth}}}]\n" +
            "".join(f"  {key}: {value}\n" for key, value in lines.items()))

    def run_train(self, ranks, out, *more, steps=STEPS, code=0):
        result = harness.run(ranks, self.train_args(out, f"train.steps={steps}", *more))
        self.assertEqual(result.code, code, result.stderr)
        return result

    def assert_predicted(self, path, ranks, dilation=1.0):
        """Every step takes the predicted time to the nanosecond, and so does every instruction of the rank
        whose times the prediction has."""
        with h5py.File(path) as file:
            predicted = file["strategy"].attrs["predicted_iteration_s"]
            wall = file["iterations/wall_s"][:]
            numpy.testing.assert_array_equal(wall, predicted)
            steps = len(wall)
            self.assertEqual(file["emulation"].attrs["dilation"], dilation)
            late = file["emulation/late_instructions"]
            self.assertEqual((late.shape, late.dtype), ((steps, ranks), numpy.int64))
            for name in ("wall_s", "moved_s"):
                self.assertEqual(file["emulation"][name].shape, (steps,))
            self.assertTrue((file["emulation/wall_s"][:] > 0).all())
            self.assertEqual(file["emulation/moved_s"][0], 0)
            begin, length = file["program/predicted_start_s"][:], file["program/predicted_s"][:]
            timeline = file["timeline"]
            shape = (-1, ranks, len(begin))
            start = timeline["start_s"][:].reshape(shape)
            end = timeline["end_s"][:].reshape(shape)
            for step in range(len(start)):
                base = step * predicted  # all steps have a timeline
                off = [max(numpy.abs(start[step, rank] - base - begin).max(),
                           numpy.abs(end[step, rank] - base - begin - length).max())
                       for rank in range(ranks)]
                self.assertLess(min(off), 0.6e-9)
            return predicted


class EmulationTest(EmulatedRun):

    def test_every_step_takes_what_was_predicted(self):
        fast = None
        for strategy, ranks, more in [("dp", 3, []), ("fsdp", 2, ["train.microbatches=2"]),
                                      ("megatron", 4, ["train.overlap=on"])]:
            with self.subTest(strategy=strategy):
                out = f"{strategy}.h5"
                result = self.run_train(ranks, out, ["--strategy", strategy], *more)
                predicted = self.assert_predicted(self.folder / out, ranks)
                self.assertIn("of emulated time", result.stdout)
                self.assertRegex(result.stdout, r"emulated \(predicted [0-9.]+ ms, here [^\n]* late\)")
                fast = fast or predicted
        self.run_train(3, "slow.h5", "cluster.device.flops=250MFLOPS",
                       "cluster.emulate_dilation=0.5")
        slow = self.assert_predicted(self.folder / "slow.h5", 3, dilation=0.5)
        self.assertGreater(slow, 1.3 * fast)

    def test_losses_are_those_of_a_run_without(self):
        plain = self.train(3, "cluster.emulate=off", steps=STEPS)
        emulated = self.train(3, steps=STEPS)
        numpy.testing.assert_array_equal(plain.loss, emulated.loss)
        numpy.testing.assert_array_equal(plain.grad_norm, emulated.grad_norm)
        with h5py.File(plain.path) as file:
            self.assertNotIn("emulation", file)

    def test_slow_devices_get_small_parts(self):
        """The search gives each of three devices its part of the batch: 4 / 7, 2 / 7 and 1 / 7."""
        devices = ("cluster.devices=[{flops: 500MFLOPS}, {flops: 250MFLOPS}, {flops: 125MFLOPS}]",
                   "train.batch=14", "train.microbatches=1", "cluster.mesh.ranks.bandwidth=5GB/s",
                   "cluster.mesh.ranks.latency=1us")
        equal = self.train(3, ["--strategy", "dp"], *devices, steps=STEPS)
        found = self.train(3, ["--strategy", "search"], *devices, steps=STEPS)
        numpy.testing.assert_allclose(found.loss, equal.loss, rtol=2e-5)
        with h5py.File(found.path) as file:
            self.assertIn("shares: {ranks: [[4, 2, 1]", file["strategy/text"].asstr()[()])
        predicted = [self.assert_predicted(run.path, 3) for run in (equal, found)]
        self.assertLess(predicted[1], 0.55 * predicted[0])

    def stragglers(self, path):
        with h5py.File(path) as file:
            group = file["stragglers"]
            causes = list(group.attrs["causes"])
            return [(int(step), int(since), int(rank), causes[cause], round(float(slower), 6), int(over))
                    for step, since, rank, cause, slower, over in zip(
                        *(group[name] for name in ("step", "since", "rank", "cause", "slower_by", "over")))]

    def test_a_slow_rank_is_named(self):
        """Rank 2 computes at half the pace from about step 63 to 130."""
        slow = "{flops: 10GFLOPS, pace_trace: [{for: 180ms, pace: 1}, {for: 320ms, pace: 0.5}, " \
               "{for: 1h, pace: 1}]}"
        result = self.run_train(3, "run.h5", f"cluster.devices=[{{count: 2, flops: 10GFLOPS}}, {slow}]",
                                "cluster.mesh.ranks.bandwidth=200MB/s", "train.batch=6", steps=210)
        self.assertRegex(result.stderr, r"warning: the computation of rank 2 \(.+\) takes 100 % longer "
                                        r"than that of its class since step \d+, mostly in .*\(100 % "
                                        r"longer\): the rank is slow, not its link\n")
        self.assertRegex(result.stderr, r"rank 2 \(.+\) takes as long as that of its class again since step")
        self.assertEqual(result.stderr.count("slow"), 1, result.stderr)
        begin, end = self.stragglers(self.folder / "run.h5")
        self.assertEqual((begin[2], begin[4:]), (2, (1.0, 0)))
        self.assertLess(begin[0], 63 + 100)
        self.assertEqual((end[2], end[4:]), (2, (0.0, 1)))

    def test_a_slow_link_is_named(self):
        trace = "[{for: 300ms, bandwidth: 200MB/s}, {for: 1h, bandwidth: 100MB/s}]"
        result = self.run_train(3, "run.h5", "cluster.device.flops=10GFLOPS",
                                "cluster.mesh.ranks.bandwidth=200MB/s",
                                f"cluster.mesh.ranks.bandwidth_trace={trace}", steps=180)
        self.assertRegex(result.stderr, r"warning: messages along ranks between ranks 0-2 \(.+\) take \d+ % "
                                        r"longer since step \d+, which .*: the link is slow\n")
        self.assertEqual(result.stderr.count("slow"), 2, result.stderr)  # in one line
        found = self.stragglers(self.folder / "run.h5")
        self.assertEqual([row[2] for row in found], [0, 1, 2])
        self.assertEqual({row[3] for row in found}, {"messages"})
        self.assertGreater(found[0][4], 0.3)

    def test_devices_of_another_class_are_not_slow(self):
        result = self.run_train(3, "run.h5", "cluster.mesh.ranks.bandwidth=200MB/s",
                                "cluster.devices=[{count: 2, flops: 10GFLOPS}, {flops: 5GFLOPS}]",
                                steps=100)
        self.assertNotIn("slow", result.stderr)
        self.assertEqual(self.stragglers(self.folder / "run.h5"), [])

    def test_goes_on_from_a_checkpoint(self):
        self.run_train(2, "whole.h5")
        self.run_train(2, "run.h5", "train.checkpoint.every_steps=4", steps=4)
        self.run_train(2, "run.h5", ["--resume", "auto"])
        with h5py.File(self.folder / "whole.h5") as whole, \
                h5py.File(self.folder / "run-2.h5") as rest:
            numpy.testing.assert_array_equal(rest["iterations/step"], [5, 6])
            numpy.testing.assert_array_equal(rest["iterations/loss"], whole["iterations/loss"][4:])
            self.assertEqual(rest.attrs["continued_at_step"], 4)
        self.assert_predicted(self.folder / "run-2.h5", 2)

    def test_a_pause_is_recorded(self):
        """Validation and checkpoints are not part of the cluster's work."""
        self.run_train(2, "run.h5", "data.validation=0.3", "train.validate_every=2",
                       "train.checkpoint.every_steps=3")
        self.assert_predicted(self.folder / "run.h5", 2)
        with h5py.File(self.folder / "run.h5") as file:
            self.assertEqual(len(file["validation/loss"]), 3)
            self.assertTrue((file["emulation/moved_s"][:] >= 0).all())

    def test_the_costs_of_a_file(self):
        """The profile belongs to this mesh, and may belong to any machine."""
        profile = self.folder / "profile.yaml"
        self.assert_done(harness.run(2, [
            "profile", self.deck, "--cluster", self.folder / "cluster.yaml", "--set",
            "cluster.emulate=off", "--out", profile]))
        text = profile.read_text()
        profile.write_text(text.replace("device: ", "device: another ", 1))
        self.assertNotEqual(text, profile.read_text())
        result = self.run_train(2, "run.h5", f"cluster.profile={profile}")
        self.assertNotIn("may mislead", result.stderr)
        self.assert_predicted(self.folder / "run.h5", 2)
        result = self.run_train(3, "other.h5", f"cluster.profile={profile}", code=USAGE)
        self.assert_one_error(result, USAGE, "cluster.profile", "does not fit")

    def test_what_is_refused(self):
        self.write_cluster(flops="")
        self.assert_one_error(self.run_train(2, "run.h5", code=USAGE), USAGE,
                              "cluster.device.flops is missing", "cluster.emulate rests on it")
        self.write_cluster(bandwidth="")
        self.assert_one_error(self.run_train(2, "run.h5", code=USAGE), USAGE,
                              "bandwidth is missing")
        self.write_cluster(flops="flops: 500MFLOPS, memory: 1MiB")
        self.write_deck(hidden=192)
        self.assert_one_error(self.run_train(2, "run.h5", code=MEMORY), MEMORY, "the plan needs")
        self.write_deck()
        self.write_cluster()
        result = harness.run(2, ["profile", self.deck, "--cluster", self.folder / "cluster.yaml",
                                 "--out", self.folder / "profile.yaml"])
        self.assert_one_error(result, USAGE, "cannot be measured")

    def test_emulated_times_are_not_absorbed(self):
        self.run_train(2, "run.h5")
        profile = self.folder / "profile.yaml"
        profile.write_text("")
        result = harness.run(0, ["profile", self.deck, "--cluster", self.folder / "cluster.yaml",
                                 "--set", f"cluster.profile={profile}", "--absorb",
                                 self.folder / "run.h5", "--out", self.folder / "new.yaml"])
        self.assert_one_error(result, FILE, "its times are emulated")


if __name__ == "__main__":
    unittest.main(verbosity=2)
