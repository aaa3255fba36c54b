"""hidup doctor: libraries, ranks, environment, and suspicious settings."""

import re
import unittest

import harness


class DoctorTest(harness.RunTest):

    def doctor(self, ranks, *args, **environment):
        result = harness.run(ranks, ["doctor", *args], env=environment)
        self.assert_done(result)
        self.assertEqual(result.error_lines(), [])
        return result.stdout

    def test_a_rank_a_line(self):
        for ranks in (0, 1, 3):
            with self.subTest(ranks=ranks):
                text = self.doctor(ranks, OMP_NUM_THREADS="1")
                for library in ("Open MPI", "HDF5", "yaml-cpp"):
                    compiled, loaded = re.search(
                        rf"^{library} +(\d\S+) +(\d\S+)$", text, re.MULTILINE).groups()
                    self.assertEqual(compiled, loaded)
                rows = re.findall(r"^ +(\d+)  .* [KMGT]iB +1  \d+ \([\d, -]+\)$", text, re.MULTILINE)
                self.assertEqual(rows, [str(rank) for rank in range(ranks or 1)])
                self.assertIn("  OMP_NUM_THREADS=1\n", text)
                self.assertNotIn("OMPI_COMM_WORLD_RANK", text)
                if harness.DEVICE == "cpu":
                    self.assertRegex(text, r"\nkernels for AVX\S+, products of bf16 by \S+\n")

    def test_what_looks_wrong(self):
        self.assertIn("\nnothing looks wrong\n", self.doctor(1, OMP_NUM_THREADS="1"))
        text = self.doctor(2, OMP_NUM_THREADS="3000")
        self.assertRegex(text, r"\nwhat looks wrong\n  ranks 0, 1 \(.+\): computes with 3000 threads "
                               r"on \d+ core\(s\): lower OMP_NUM_THREADS")

    def test_takes_what_train_takes(self):
        args = self.train_args("run.h5", "train.steps=5", ["--strategy", "fsdp"],
                               ["--dump-gradients", self.folder / "gradients.h5"])
        before = sorted(self.folder.iterdir())
        text = self.doctor(2, *args[1:])
        for fact in (r"mesh +ranks 2", r"data +.* tokens in 1 file", r"model +bert, .* parameters",
                     r"strategy +fsdp, .*iB a rank", r"out +.*run\.h5",
                     r"dump-gradients +.*gradients\.h5"):
            self.assertRegex(text, r"\n  " + fact)
        self.assertIn("\nnothing looks wrong\n", text)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_compares_ranks(self):
        """The times of a shared machine differ, so what looks wrong is not known."""
        result = harness.run(3, ["doctor", "--compare", "--cluster", self.folder / "cluster.yaml"])
        self.assert_done(result)
        rows = re.findall(r"^ +(\d) +(\S+) Gflop/s +(\S+) GB/s +(\S+) GB/s +none$", result.stdout,
                          re.MULTILINE)
        self.assertEqual([row[0] for row in rows], ["0", "1", "2"], result.stdout)
        for row in rows:
            self.assertGreater(min(map(float, row[1:])), 0)

    def test_names_classes_of_devices(self):
        devices = "cluster.devices=[{ranks: '0, 2', flops: 2GFLOPS, memory: 1GiB}, {count: 1, flops: 1GFLOPS}]"
        args = ["doctor", "--compare", "--cluster", self.folder / "cluster.yaml"]
        result = harness.run(3, [*args, "--set", devices])
        self.assert_done(result)
        self.assertIn("ranks 0, 2: " + harness.DEVICE + ", 0.002 TFLOPS, 1.00 GiB\n", result.stdout)
        self.assertIn("rank 1: " + harness.DEVICE + ", 0.001 TFLOPS\n", result.stdout)
        rows = re.findall(r"^(ranks? [\d, ]+?)  +(\S+) Gflop/s +(\S+) Gflop/s +(\S+) Gflop/s +(\S+) GB/s "
                          r"+(\S+) GB/s$", result.stdout, re.MULTILINE)
        self.assertEqual([(row[0], row[3]) for row in rows], [("ranks 0, 2", "2"), ("rank 1", "1")],
                         result.stdout)
        for _, least, median, _, least_memory, median_memory in rows:
            self.assertLessEqual(float(least), float(median))
            self.assertLessEqual(float(least_memory), float(median_memory))
        self.assertNotIn("class of devices", harness.run(2, args).stdout)

    def test_what_looks_wrong_with_a_run(self):
        out = self.folder / "run.h5"
        out.write_text("precious")
        text = self.doctor(2, *self.train_args(
            out.name, "data.path=nowhere.txt", "cluster.device.threads=3000",
            ["--hints", "no-hints.yaml"], ["--strategy", "dpp"])[1:])
        self.assertEqual(out.read_text(), "precious")
        findings = text.partition("\nwhat looks wrong\n")[2]
        for finding in ("nowhere.txt", "no-hints.yaml", "--strategy dpp", f"{out}: exists",
                        "computes with 3000 threads"):
            self.assertIn(finding, findings)

    def test_decks_that_do_not_fit(self):
        cluster = self.folder / "cluster.yaml"
        cluster.write_text(cluster.read_text().replace("size: auto", "size: 3"))
        self.assertRegex(self.doctor(2, "--cluster", cluster),
                         r"\nwhat looks wrong\n.*cluster\.mesh.* there are 2")
        self.write_deck(hidden=25)
        self.assertRegex(self.doctor(1, self.deck), r"\nwhat looks wrong\n  .*model\.yaml:\d+:\d+: ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
