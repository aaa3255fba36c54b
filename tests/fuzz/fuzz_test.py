"""The fuzzer finds faults of programs that have them; a short run of it finds none in hidup."""

import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import fuzz
import keys
import mutate
from runs import SOURCE, Case, Limits, Runner

BINARY = pathlib.Path(os.environ.get("HIDUP_BINARY", SOURCE / "build" / "hidup"))

SAYS_WHY = 'echo "hidup: error: d.yaml:1:2: wrong" >&2; exit 2'


class FakeTest(unittest.TestCase):
    """Runs a shell script in hidup's place."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hidup-fuzz-test-")
        self.addCleanup(folder.cleanup)
        self.scratch = pathlib.Path(folder.name)

    def findings(self, script, seconds=5, memory=0, **options):
        program = self.scratch / "program"
        program.write_text("#!/bin/bash\n" + script + "\n")
        program.chmod(0o755)
        folder = self.scratch / "case"
        folder.mkdir()
        runner = Runner(program, self.scratch, Limits(seconds, memory))
        case = Case(runner, 1, random.Random(1), folder, self.scratch / "keep")
        case.write({"deck.yaml": "model: {}\n"})
        case.run("validate", **options)
        self.kept = self.scratch / "keep" / "1-1"
        return [finding.what for finding in case.findings]

    def test_nothing_is_wrong(self):
        self.assertEqual(self.findings("exit 0"), [])

    def test_an_error_that_says_why(self):
        self.assertEqual(self.findings(SAYS_WHY), [])

    def test_what_the_build_lacks(self):
        self.assertEqual(self.findings(
            'echo "hidup: error: cuda, but this binary was built for cpu ranks" >&2; exit 8'), [])

    def test_exit_code_8_without_a_reason(self):
        self.assertEqual(self.findings('echo "hidup: error: no" >&2; exit 8'), ["exit code 8"])

    def test_internal_error(self):
        self.assertEqual(self.findings('echo "hidup: error: bad graph" >&2; exit 70'),
                         ["exit code 70"])
        self.assertEqual((self.kept / "files" / "deck.yaml").read_text(), "model: {}\n")
        again = subprocess.run(["bash", "../command"], cwd=self.kept / "files", check=False,
                               stderr=subprocess.DEVNULL)
        self.assertEqual(again.returncode, 70)

    def test_signal(self):
        self.assertEqual(self.findings("kill -SEGV $$"), ["ended by SIGSEGV"])

    def test_run_that_does_not_end(self):
        self.assertEqual(self.findings("sleep 60 & wait", seconds=0.2),
                         ["ran longer than the time limit"])

    def test_memory_limit(self):
        # The shell then cannot even start a program, and reports it.
        found = self.findings("/bin/true || exit 70", memory=1 << 20)
        self.assertEqual(len(found), 1)

    def test_no_reason(self):
        self.assertEqual(self.findings("exit 2"), ["exit code 2 with 0 lines of error"])

    def test_error_but_done(self):
        self.assertEqual(self.findings('echo "hidup: error: full" >&2'),
                         ["exit code 0, but an error is printed"])

    def test_control_bytes(self):
        self.assertEqual(self.findings(r'printf "hidup: error: \033[1m\n" >&2; exit 2'),
                         ["control bytes in standard error"])

    def test_long_line(self):
        self.assertEqual(self.findings('printf "hidup: error: %03000d\n" 1 >&2; exit 2'),
                         ["a very long line in standard error"])

    def test_changed_input(self):
        self.assertEqual(self.findings("echo >> deck.yaml"), ["deck.yaml changed"])

    def test_file_left_behind(self):
        self.assertEqual(self.findings("echo > new.yaml.tmp", outputs=["new.yaml"]),
                         ["new.yaml.tmp changed"])

    def test_output_of_a_run_that_failed(self):
        self.assertEqual(self.findings("echo > new.yaml; " + SAYS_WHY, outputs=["new.yaml"]),
                         ["exit code 2, but new.yaml is there"])

    def test_output_that_is_missing(self):
        self.assertEqual(self.findings("exit 0", outputs=["new.yaml"]),
                         ["new.yaml is not complete"])

    def test_output_that_is_cut_short(self):
        self.assertEqual(self.findings("printf 'name: d' > new.yaml", outputs=["new.yaml"]),
                         ["new.yaml is not complete"])

    def test_json_that_is_none(self):
        found = self.findings('echo "{\\"a\\": NaN}"', json_out=True)
        self.assertEqual(found, ["standard output is not JSON: NaN is not JSON"])

    def test_full_disk(self):
        self.assertEqual(self.findings("echo results; exit 0", stdout_path="/dev/full"),
                         ["exit code 0 although standard output is full"])


class MutationTest(unittest.TestCase):
    TEXT = (SOURCE / "inputs" / "models" / "tiny.yaml").read_text(encoding="latin-1")

    def test_every_mutation_changes_the_text(self):
        for change in mutate.MUTATIONS:
            changed = [change(random.Random(seed), self.TEXT, ["a: [1, {b: 2GiB}]\n"])
                       for seed in range(40)]
            self.assertGreater(len(set(changed)), 5, change.__name__)

    def test_repeats(self):
        one, other = (mutate.mutate(random.Random("1 5"), self.TEXT, []) for _ in range(2))
        self.assertEqual(one, other)

    def test_values_lie_at_and_beyond_the_ends(self):
        key = keys.Key("model.layers", "an integer from 1 to 10000, or auto")
        values = keys.typical_values(key)
        self.assertLessEqual({"0", "1", "2", "9999", "10000", "10001", "auto"}, set(values))


class ShortRunTest(unittest.TestCase):
    def test_nothing_is_found(self):
        self.assertEqual(fuzz.main(["--seed", "short", "--runs", "400", "--jobs", "1",
                                    "--binary", str(BINARY)]), 0)


if __name__ == "__main__":
    unittest.main()
