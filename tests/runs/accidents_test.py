"""Any failure ends the run soon, on all ranks, with one message and its code."""

import os
import signal
import subprocess
import time
import unittest

import h5py

import harness

USAGE, OUT_OF_MEMORY, COMMUNICATION, FILE, STOPPED, UNAVAILABLE = 2, 4, 5, 6, 7, 8
FOR_EVER = "train.steps=1000000"


class AccidentTest(harness.RunTest):

    def start(self, ranks, out="run.h5"):
        """Starts a run without end and waits for some steps."""
        launch = harness.Launch(ranks, self.train_args(out, FOR_EVER))
        self.addCleanup(launch.__exit__)
        launch.wait_for_rows(self.folder / out, 3)
        self.assertEqual(sorted(launch.ranks()), list(range(ranks)))
        return launch

    def start_all(self, cases):
        """Starts a run on two ranks for each case at once, because runs that fail mostly wait.
        cases: {case: (setting or None, program)}. Returns {case: its launch}."""
        launches = {}
        for number, (case, (setting, program)) in enumerate(cases.items()):
            args = self.train_args(f"run{number}.h5", *([setting] if setting else []))
            launches[case] = harness.Launch(2, args, program=program)
            self.addCleanup(launches[case].__exit__)
        return launches


class FileAccidents(AccidentTest):

    def test_data_cannot_be_read(self):
        """No such file, a pattern that no file matches, and a folder."""
        paths = ("nowhere.txt", "nowhere/*.txt", str(self.folder))
        launches = self.start_all({path: (f"data.path={path}", harness.BINARY) for path in paths})
        for path, launch in launches.items():
            with self.subTest(path=path):
                self.assert_one_error(launch.wait(harness.SOON), FILE, path)

    def test_existing_output(self):
        out = self.folder / "run.h5"
        out.write_text("precious")
        result = harness.run(2, self.train_args(out.name))
        self.assert_one_error(result, FILE, str(out), "--overwrite")
        self.assertEqual(out.read_text(), "precious")
        self.assert_done(harness.run(2, self.train_args(out.name, ["--overwrite"])))
        self.assertEqual(len(harness.losses(out)), harness.TRAIN["steps"])

    def test_disk_full_during_the_run(self):
        disk = self.small_disk()
        out = disk / "run.h5"
        with harness.Launch(2, self.train_args("disk/run.h5", FOR_EVER)) as launch:
            launch.wait_for_rows(out, 1)
            with open(disk / "rest", "wb", buffering=0) as rest:
                try:
                    while True:
                        rest.write(bytes(4096))
                except OSError:
                    pass
            self.assert_one_error(launch.wait(60), FILE, str(out), "space")

    def on_a_small_disk(self, folder, size):
        """Returns a program that sees a folder as a file system of that size; skips the test where there can
        be none."""
        mount = f'mount -t tmpfs -o size={size} none "{folder}"'
        tried = subprocess.run(["unshare", "--mount", "sh", "-c", mount], capture_output=True, text=True)
        if tried.returncode != 0:
            self.skipTest(f"a full disk needs a small one, and mount says: {tried.stderr.strip()}")
        program = self.folder / "hidup.sh"
        program.write_text("#!/usr/bin/env bash\n"
                           f"exec unshare --mount bash -c '{mount} && exec \"$0\" \"$@\"' "
                           f'"{harness.BINARY}" "$@"\n')
        program.chmod(0o755)
        return program

    def test_shared_memory_is_full(self):
        program = self.on_a_small_disk("/dev/shm", "600k")
        result = harness.run(2, self.train_args("run.h5", "cluster.profile=auto"), program=program,
                             env=dict(XDG_CACHE_HOME=str(self.folder / "cache")))
        self.assert_one_error(result, FILE, "/dev/shm: has 600.00 KiB free", "needs ")

    def test_temporary_folder_is_full(self):
        folder = self.folder / "temporary"
        folder.mkdir()
        result = harness.run(0, self.train_args("run.h5"), program=self.on_a_small_disk(folder, "1m"),
                             env=dict(TMPDIR=str(folder)))
        self.assert_one_error(result, FILE, f"{folder}, which TMPDIR names: has 1.00 MiB free")

    def test_data_is_cut_short_during_the_run(self):
        data = self.folder / "text.txt"
        data.write_text(data.read_text() * 1000)  # a page is left of it
        launch = self.start(2)
        os.truncate(data, 100)
        self.assert_one_error(launch.wait(harness.SOON), FILE, str(data), "cut short")

    def test_data_is_deleted_or_replaced_during_the_run(self):
        data = self.folder / "text.txt"
        launch = self.start(2)
        other = self.folder / "other.txt"
        other.write_text("short")
        other.rename(data)
        data.unlink()
        seen = len(harness.losses(self.folder / "run.h5"))
        launch.wait_for_rows(self.folder / "run.h5", seen + 100)  # reads all data again
        launch.signal(signal.SIGUSR1)
        self.assertEqual(launch.wait(harness.SOON).code, STOPPED)

    def test_readable_after_a_kill(self):
        launch = self.start(2)
        seen = launch.wait_for_rows(self.folder / "run.h5", 10)
        time.sleep(1.5)  # only rows of the last second may be missing
        launch.kill()
        launch.wait(harness.SOON)
        self.assertGreaterEqual(len(harness.losses(self.folder / "run.h5")), seen)
        with h5py.File(self.folder / "run.h5", "r", swmr=True) as file:
            steps = file["iterations/step"][:]
            self.assertEqual(list(steps), list(range(1, len(steps) + 1)))


class UsageAccidents(AccidentTest):

    def test_wrong_deck(self):
        deck = self.folder / "model.yaml"
        deck.write_text(deck.read_text().replace("hidden: 24", "hidden: 25"))
        result = harness.run(2, self.train_args("run.h5"))
        self.assert_one_error(result, USAGE, "hidden")
        self.assertNotIn("MPI_ABORT", result.stderr)
        self.assertFalse((self.folder / "run.h5").exists())

    def test_program_without_nccl(self):
        result = harness.run(2, self.train_args("run.h5", "cluster.comm.backend=nccl"))
        self.assert_one_error(result, UNAVAILABLE, "cluster.comm.backend is nccl", "without NCCL")

    def test_srun_without_pmix(self):
        """Slurm started two processes, which Open MPI would take for two jobs of one rank."""
        result = harness.run(0, self.train_args("run.h5"),
                             env=dict(SLURM_NTASKS="2", SLURM_PROCID="0"))
        self.assert_one_error(result, UNAVAILABLE, "PMIx")
        self.assertFalse((self.folder / "run.h5").exists())


class LostRanks(AccidentTest):

    def limited(self, ranks, kib):
        """Returns a program with so much address space on the ranks for which the shell's test holds."""
        program = self.folder / f"hidup{len(list(self.folder.iterdir()))}.sh"
        program.write_text('#!/usr/bin/env bash\n'
                           f'! [[ {ranks} ]] || ulimit -v {kib}\n'
                           f'exec "{harness.BINARY}" "$@"\n')
        program.chmod(0o755)
        return program

    def test_too_little_memory_to_start(self):
        launches = self.start_all({(ranks, kib): (None, self.limited(ranks, kib))
                                   for ranks in ("$OMPI_COMM_WORLD_RANK == 1", "true")
                                   for kib in (120000, 300000, 550000)})
        for (ranks, kib), launch in launches.items():
            with self.subTest(ranks=ranks, kib=kib):
                self.assert_one_error(launch.wait(harness.SOON), OUT_OF_MEMORY, "rank ", "of address space")

    def test_too_little_memory_to_train(self):
        launches = self.start_all({kib: (None, self.limited("true", kib))
                                   for kib in range(600000, 721000, 40000)})  # around the first sufficient limit
        for kib, launch in launches.items():
            with self.subTest(kib=kib):
                result = launch.wait(harness.SOON)
                if result.code != 0:
                    self.assert_one_error(result, OUT_OF_MEMORY, "of address space")

    def test_rank_is_stopped_while_it_starts(self):
        launches = {}
        for seconds in (0.0, 0.1, 0.3, 0.6):
            launch = harness.Launch(2, self.train_args(f"{seconds}.h5", FOR_EVER))
            self.addCleanup(launch.__exit__)
            while 1 not in launch.ranks():
                time.sleep(0.01)
            time.sleep(seconds)
            os.kill(launch.ranks()[1], signal.SIGSTOP)
            launches[seconds] = launch
        for seconds, launch in launches.items():  # they notice it concurrently
            with self.subTest(seconds=seconds):
                self.assert_one_error(launch.wait(harness.SOON), COMMUNICATION, ": rank 1 ")

    def test_rank_has_too_little_memory(self):
        # (tests/comm tests the end of a rank that throws in the middle of a step.)
        program = self.limited("$OMPI_COMM_WORLD_RANK == 1", 1500000)
        result = harness.run(3, self.train_args("big.h5", "train.batch=100000"), program=program)
        self.assert_one_error(result, OUT_OF_MEMORY, "rank 1 ", "the plan needs", "largest tensors")

    def test_rank_is_killed(self):
        launch = self.start(3)
        os.kill(launch.ranks()[1], signal.SIGKILL)
        result = launch.wait(harness.SOON)
        self.assertNotEqual(result.code, 0)
        # mpirun may be faster than the neighbour and then name the rank itself.
        self.assertLessEqual(len(result.error_lines()), 1, result.stderr)
        self.assertIn("rank 1", result.stderr)

    def test_rank_is_stopped(self):
        stopped = {}
        for culprit in (0, 1):
            launch = self.start(3, f"{culprit}.h5")
            stopped[culprit] = launch, launch.ranks()
            os.kill(launch.ranks()[culprit], signal.SIGSTOP)
        for culprit, (launch, ranks) in stopped.items():  # they notice it concurrently
            with self.subTest(culprit=culprit):
                result = launch.wait(harness.SOON)
                self.assert_one_error(result, COMMUNICATION, f": rank {culprit} ")
                # mpirun kills a stopped rank and does not wait for its end.
                self.assertFalse(harness.left_alive(ranks.values(), within=10))


if __name__ == "__main__":
    unittest.main(verbosity=2)
