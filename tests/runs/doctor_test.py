"""hidup doctor: libraries, ranks, environment, and what looks wrong."""

import re
import unittest

import harness


class DoctorTest(harness.RunTest):

    def doctor(self, ranks, **environment):
        result = harness.run(ranks, ["doctor"], env=environment)
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

    def test_what_looks_wrong(self):
        self.assertIn("\nnothing looks wrong\n", self.doctor(1, OMP_NUM_THREADS="1"))
        text = self.doctor(2, OMP_NUM_THREADS="3000")
        self.assertRegex(text, r"\nwhat looks wrong\n  ranks 0, 1 \(.+\): computes with 3000 threads "
                               r"on \d+ core\(s\): lower OMP_NUM_THREADS")


if __name__ == "__main__":
    unittest.main(verbosity=2)
