"""Runs that stop, are killed or change their ranks, and resume from a checkpoint."""

import os
import random
import shutil
import signal
import time
import unittest

import h5py
import numpy

import harness

USAGE, FILE, STOPPED, NOT_FINITE = 2, 6, 7, 9
FOR_EVER = "train.steps=1000000"


def rows(path, name="loss"):
    with h5py.File(path, "r", swmr=True) as file:
        return file[f"iterations/{name}"][:]


class CheckpointTest(harness.RunTest):

    def run_train(self, ranks, out, *more, code=0):
        result = harness.run(ranks, self.train_args(out, *more))
        self.assertEqual(result.code, code, result.stderr)
        return result

    def checkpoints(self, run="run"):
        return sorted((self.folder / f"{run}.ckpt").glob("step-*.ckpt.h5"))

    def resume(self, ranks, out, *more, **options):
        return self.run_train(ranks, out, ["--resume", "auto"], *more, **options)

    def undisturbed(self, *more):
        """Returns the losses of the whole run on two ranks under strategy dp."""
        self.run_train(2, "whole.h5", *more)
        return rows(self.folder / "whole.h5")


class Resume(CheckpointTest):

    def test_on_other_ranks(self):
        every = "train.checkpoint.every_steps=8"
        whole = self.undisturbed("train.checkpoint.folder=" + str(self.folder / "other"))
        self.run_train(2, "run.h5", every)
        self.assertEqual([path.name for path in self.checkpoints()],
                         [f"step-{step:08}.ckpt.h5" for step in (8, 16, 20)])
        self.checkpoints()[2].unlink()
        self.checkpoints()[1].unlink()
        for number, (ranks, strategy) in enumerate([(2, "dp"), (1, "dp"), (3, "fsdp"),
                                                    (4, "megatron")]):
            with self.subTest(ranks=ranks, strategy=strategy):
                result = self.resume(ranks, "run.h5", ["--strategy", strategy],
                                     f"train.checkpoint.folder={self.folder / 'run.ckpt'}",
                                     "train.checkpoint.every_steps=7", "train.microbatches=2"
                                     if ranks > 2 else "train.microbatches=1")
                self.assertIn("step 8", result.stderr)
                segment = self.folder / f"run-{number + 2}.h5"
                numpy.testing.assert_array_equal(rows(segment, "step"), range(9, 21))
                found = rows(segment)
                if ranks == 2:
                    numpy.testing.assert_array_equal(found, whole[8:])
                numpy.testing.assert_allclose(found, whole[8:], rtol=harness.STEP_TOLERANCE)
                with h5py.File(segment) as file:
                    self.assertEqual(file.attrs["continued_from"], "run.h5")
                    self.assertEqual(file.attrs["continued_at_step"], 8)
                for path in self.checkpoints()[1:]:
                    path.unlink()

    def test_takes_the_strategy_of_the_checkpoint(self):
        self.run_train(2, "run.h5", ["--strategy", "fsdp"], "train.checkpoint.every_steps=10")
        args = self.train_args("run.h5", ["--resume", "auto"], "train.steps=22")
        strategy = args.index("--strategy")
        del args[strategy:strategy + 2]
        result = harness.run(2, args)
        self.assertIn("strategy fsdp", result.stderr)

    def test_all_steps_are_done(self):
        self.run_train(2, "run.h5", "train.checkpoint.every_steps=20")
        result = self.resume(2, "run.h5")
        self.assertIn("all 20 steps", result.stderr)
        self.assertFalse((self.folder / "run-2.h5").exists())
        result = self.resume(2, "run.h5", "model.heads=4", code=USAGE)
        self.assert_one_error(result, USAGE, "model.heads: 3 -> 4")

    def test_damaged_files(self):
        self.run_train(0, "run.h5", "train.checkpoint.every_steps=5", "train.checkpoint.keep=0")
        steps = self.checkpoints()
        self.assertEqual(len(steps), 4)
        with open(steps[3], "r+b") as file:
            file.truncate(steps[3].stat().st_size // 2)
        with h5py.File(steps[2]) as file:
            place = file["parameters/head.weight"].id.get_offset()
        with open(steps[2], "r+b") as file:
            file.seek(place + 8)
            file.write(b"\xff")
        result = self.resume(2, "run.h5")
        self.assertIn(str(steps[3]), result.stderr)
        self.assertRegex(result.stderr, f"{steps[2]}: block 0 of parameters/head.weight is corrupted")
        self.assertIn(f"resumes from {steps[1]}, step 10", result.stderr)
        result = self.run_train(0, "mine.h5", ["--resume", steps[2]], code=FILE)
        self.assert_one_error(result, FILE, "head.weight", "block 0")

    def test_what_differs_is_named(self):
        self.run_train(0, "run.h5", "train.checkpoint.every_steps=20")
        resume = ["--resume", self.checkpoints()[0]]
        for settings, texts in [
                (["model.heads=4", "train.optimizer=adam", "train.lr=1"],
                 ["model.heads: 3 -> 4", "train.optimizer: adamw -> adam"]),
                (["data.tokenizer=words"], ["data.tokenizer: bytes -> words", "vocabulary"])]:
            result = self.run_train(0, "other.h5", resume, "train.steps=30", *settings, code=USAGE)
            self.assert_one_error(result, USAGE, *texts)
            self.assertNotIn("train.lr:", result.error_lines()[0])
        result = self.run_train(0, "other.h5", resume, "train.steps=30", "train.lr=0.002")
        self.assertIn("train.lr: 0.003 -> 0.002", result.stderr)
        self.assertNotIn("data files", result.stderr)
        self.assertNotIn("learning rate", result.stderr)
        result = self.run_train(0, "higher.h5", resume, "train.steps=21", "train.lr=0.004")
        self.assertIn("warning: the changed schedule raises the learning rate: step 21 takes 0.004, "
                      "and step 20 took 0.003", result.stderr)
        text = self.folder / "text.txt"
        text.write_text(text.read_text() + "more")
        result = self.run_train(0, "third.h5", resume, "train.steps=30")
        self.assertIn("what the data files hold", result.stderr)

    def test_checkpoints_of_an_earlier_run(self):
        self.run_train(0, "run.h5", "train.checkpoint.every_steps=20")
        (self.folder / "run.h5").unlink()
        result = self.run_train(0, "run.h5", code=FILE)
        self.assert_one_error(result, FILE, "run.ckpt", "up to step 20", "--overwrite")
        self.run_train(0, "run.h5", ["--overwrite"], "train.checkpoint.every_steps=3",
                       "train.checkpoint.blocking=on", "train.steps=4")
        self.assertEqual([path.name for path in self.checkpoints()],
                         ["step-00000003.ckpt.h5", "step-00000004.ckpt.h5"])

    def test_no_checkpoint_yet(self):
        result = self.resume(0, "run.h5", "train.steps=2")
        self.assertIn("starts with step 1", result.stderr)
        self.assertEqual(len(rows(self.folder / "run.h5")), 2)


    def test_rows_that_are_missing_are_named(self):
        self.run_train(0, "run.h5", "train.checkpoint.every_steps=5")
        self.run_train(0, "short.h5", "train.steps=12")
        more = "train.steps=21"
        self.assertNotIn("lacks", self.resume(0, "run.h5", more).stderr)
        (self.folder / "run-2.h5").unlink()
        (self.folder / "short.h5").rename(self.folder / "run.h5")
        result = self.resume(0, "run.h5", more)
        self.assertIn(f"{self.folder / 'run.h5'}: lacks the rows of steps 13 to 20", result.stderr)
        (self.folder / "run.h5").unlink()
        result = self.run_train(0, "again.h5", "train.steps=22",
                                ["--resume", self.checkpoints()[-1]])
        self.assertIn("run.h5: cannot open the file", result.stderr)


class SharedFolder(CheckpointTest):
    """Several runs with one checkpoint folder."""

    def setUp(self):
        super().setUp()
        self.shared = self.folder / "shared"
        self.settings = [f"train.checkpoint.folder={self.shared}", "train.checkpoint.every_steps=5",
                         "train.checkpoint.keep=2"]

    def contents(self):
        return {path.name: path.read_bytes() for path in self.shared.iterdir()}

    def test_at_the_same_time(self):
        with harness.Launch(2, self.train_args("one.h5", *self.settings, FOR_EVER)) as launch:
            launch.wait_for_rows(self.folder / "one.h5", 12)
            for resume in ([], ["--resume", "auto"]):
                result = self.run_train(2, "other.h5", resume, *self.settings, code=FILE)
                self.assert_one_error(result, FILE, str(self.shared),
                                      f"process {launch.ranks()[0]} on ", "one.h5")
            launch.kill()
        self.assertIn("lock", self.contents())
        result = self.resume(2, "one.h5", *self.settings, FOR_EVER, ["-t", "00:00:04"],
                             code=STOPPED)
        self.assertIn("resumes from", result.stderr)
        self.assertNotIn("lock", self.contents())

    def test_one_after_the_other(self):
        self.run_train(2, "one.h5", *self.settings)
        ones = self.contents()
        self.assertEqual(sorted(ones), ["step-00000015.ckpt.h5", "step-00000020.ckpt.h5"])
        result = self.resume(2, "other.h5", *self.settings)
        self.assertIn(f"{self.folder / 'one.h5'}", result.stderr)
        self.assertIn("starts with step 1", result.stderr)
        both = self.contents()
        self.assertEqual({name: both.get(name) for name in ones}, ones)
        self.assertEqual(sorted(both.keys() - ones),
                         ["step-00000015-2.ckpt.h5", "step-00000020-2.ckpt.h5"])
        for name, number in (("one", 20), ("other", 20)):
            result = self.resume(2, f"{name}.h5", *self.settings, "train.steps=21")
            self.assertRegex(result.stderr, f"resumes from .*step-000000{number}{'-2' * (name == 'other')}"
                                            ".ckpt.h5, step 20")
        self.run_train(2, "other.h5", ["--overwrite"], "train.steps=1", *self.settings)
        left = self.contents()
        self.assertIn("step-00000021.ckpt.h5", left)
        self.assertIn("step-00000001.ckpt.h5", left)
        self.assertEqual(len(left), 3)


class Stopping(CheckpointTest):

    def stopped(self, stop, *more):
        """Ends a long run by stop(launch) and returns the number of its steps."""
        with harness.Launch(2, self.train_args("run.h5", FOR_EVER, *more)) as launch:
            launch.wait_for_rows(self.folder / "run.h5", 5)
            stop(launch)
            result = launch.wait(harness.SOON)
        self.assertEqual(result.code, STOPPED, result.stderr)
        self.assertIn("stopped by", result.stderr)
        done = len(rows(self.folder / "run.h5"))
        self.assertEqual([path.name for path in self.checkpoints()],
                         [f"step-{done:08}.ckpt.h5"])
        return done

    def assert_goes_on(self, done):
        """Resumes on one rank more, up to a step that an undisturbed run has, too."""
        steps = f"train.steps={done + 5}"
        self.resume(3, "run.h5", steps)
        whole = self.undisturbed(steps)
        joined = numpy.concatenate([rows(self.folder / "run.h5"), rows(self.folder / "run-2.h5")])
        # Small differences must not have grown: see python3 -m analysis compare.
        numpy.testing.assert_array_equal(joined[:done], whole[:done])
        numpy.testing.assert_allclose(joined, whole, rtol=harness.STEP_TOLERANCE)

    def test_signal(self):
        self.assert_goes_on(self.stopped(lambda launch: launch.signal(signal.SIGUSR1)))

    def test_signal_to_one_rank(self):
        self.stopped(lambda launch: os.kill(launch.ranks()[1], signal.SIGTERM))

    def test_signal_while_mpi_starts(self):
        program = self.folder / "hidup.sh"  # rank 0 waits in MPI for rank 1, a late starter
        program.write_text('#!/usr/bin/env bash\n'
                           'until [[ $OMPI_COMM_WORLD_RANK == 0 || -e go ]]; do sleep 0.1; done\n'
                           f'exec "{harness.BINARY}" "$@"\n')
        program.chmod(0o755)
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name):
                (self.folder / "go").unlink(missing_ok=True)
                args = self.train_args(f"{number.name}.h5", FOR_EVER)
                with harness.Launch(2, args, program=program, cwd=self.folder) as launch:
                    while 0 not in launch.ranks():
                        time.sleep(0.01)
                    time.sleep(1.0)
                    os.kill(launch.ranks()[0], number)
                    (self.folder / "go").touch()
                    result = launch.wait(harness.SOON)
                self.assertEqual(result.code, STOPPED, result.stderr)
                self.assertIn("stopped by a signal after step 0", result.stderr)

    def test_file(self):
        wish = self.folder / "checkpoint_now"
        self.stopped(lambda launch: wish.touch())
        self.assertFalse(wish.exists())

    def test_wall_time(self):
        result = self.run_train(2, "run.h5", FOR_EVER, ["-t", "00:00:03"], code=STOPPED)
        self.assertIn("stopped by -t", result.stderr)
        done = len(rows(self.folder / "run.h5"))
        self.assertEqual(self.checkpoints()[0].name, f"step-{done:08}.ckpt.h5")

    def test_wrong_wall_time(self):
        for text in ("10", "1:2", "00:61:00", "00:00:00", "x:00:00"):
            result = self.run_train(0, "run.h5", ["-t", text], code=USAGE)
            self.assert_one_error(result, USAGE, "hh:mm:ss")


class Accidents(CheckpointTest):

    def test_kill(self):
        """A kill at any moment, even within the write, leaves the newest complete checkpoint whole."""
        every = ["train.checkpoint.every_steps=2", "train.checkpoint.keep=2", FOR_EVER]
        draw = random.Random(5)
        last = 0
        for _ in range(6):
            with harness.Launch(2, self.train_args("run.h5", ["--resume", "auto"], *every)) as launch:
                launch.wait_for_rows(self.next_segment(), 1)
                time.sleep(draw.uniform(0.0, 0.4))
                launch.kill()
            steps = [int(path.name[5:13]) for path in self.checkpoints()]
            self.assertGreaterEqual(max(steps, default=0), last)
            if steps and max(steps) > last:  # the killed run wrote it
                last = max(steps)
                self.assertGreaterEqual(rows(self.segments()[-1], "step")[-1], last)
        done = last
        self.resume(2, "run.h5", f"train.steps={done + 3}", "train.checkpoint.keep=2")
        numpy.testing.assert_array_equal(rows(self.segments()[-1], "step"),
                                         range(done + 1, done + 4))
        self.assertFalse(list((self.folder / "run.ckpt").glob("*.part-*")))

    def segments(self):
        return sorted(self.folder.glob("run*.h5"), key=lambda path: path.stat().st_mtime)

    def next_segment(self):
        number = len(self.segments()) + 1
        return self.folder / ("run.h5" if number == 1 else f"run-{number}.h5")

    def test_folder_is_deleted(self):
        settings = ["train.checkpoint.every_steps=5", FOR_EVER]
        with harness.Launch(2, self.train_args("run.h5", *settings)) as launch:
            self.wait_for_checkpoint()
            (self.folder / "run.ckpt").rename(self.folder / "gone")  # at once, even during a write
            shutil.rmtree(self.folder / "gone", ignore_errors=True)
            self.wait_for_checkpoint()
            launch.signal(signal.SIGUSR1)
            result = launch.wait(harness.SOON)
        self.assertEqual(result.code, STOPPED, result.stderr)
        self.assertEqual(result.stderr.count("run.ckpt: was deleted; the folder is made again"), 1,
                         result.stderr)
        done = len(rows(self.folder / "run.h5"))
        self.assertIn(f"step-{done:08}.ckpt.h5", [path.name for path in self.checkpoints()])
        self.assertFalse((self.folder / "run.ckpt" / "lock").exists())

    def wait_for_checkpoint(self, timeout=30):
        deadline = time.monotonic() + timeout
        while not self.checkpoints():
            self.assertLess(time.monotonic(), deadline, "no checkpoint")
            time.sleep(0.05)

    def test_disk_full(self):
        disk = self.small_disk()
        settings = ["train.checkpoint.every_steps=5", "train.checkpoint.keep=0",
                    f"train.checkpoint.folder={disk}", "model.hidden=48"]
        warned = self.run_train(2, "run.h5", *settings, code=FILE)  # the last one fails, too
        self.assertIn("warning", warned.stderr)
        self.assertEqual(len(rows(self.folder / "run.h5")), harness.TRAIN["steps"])
        kept = sorted(path.name for path in disk.iterdir())
        self.assertTrue(kept and kept[0] == "step-00000005.ckpt.h5", kept)
        self.assertFalse([name for name in kept if "part" in name])
        for path in disk.iterdir():
            path.unlink()
        ended = self.run_train(2, "other.h5", *settings, "train.checkpoint.on_error=stop", code=FILE)
        self.assert_one_error(ended, FILE, str(disk), "space")
        self.assertLess(len(rows(self.folder / "other.h5")), harness.TRAIN["steps"])


class NotFinite(CheckpointTest):

    def setUp(self):
        super().setUp()
        # The first product is too large for a float.
        (self.folder / "graph.txt").write_text("""graph large
input tokens : i32[5, 17]
input targets : i32[5, 17]
parameter table : f32[256, 6] = uniform(1e30)
parameter inner : f32[6, 6] = uniform(1e30)
parameter outer : f32[6, 256] = uniform(0.1)
x = embedding(tokens, table)
y = matmul(x, inner)
z = matmul(y, outer)
loss = cross_entropy(z, targets)
""")
        self.deck.write_text(
            harness.write_section("model", dict(graph="graph.txt", sequence=17)) +
            harness.write_section("data", dict(kind="text", path="text.txt")) +
            harness.write_section("train", harness.TRAIN))

    def test_stop(self):
        result = self.run_train(2, "run.h5", code=NOT_FINITE)
        self.assert_one_error(result, NOT_FINITE, "step 1:", "matmul y", "on rank 0")

    def test_skip(self):
        self.run_train(2, "run.h5", "train.on_nan=skip", "train.steps=3")
        numpy.testing.assert_array_equal(rows(self.folder / "run.h5", "skipped"), [1, 1, 1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
