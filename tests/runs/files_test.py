"""Wrong or damaged files, conflicting outputs, lost results."""

import os
import unittest

import harness

USAGE, FILE = 2, 6
AT_ONCE = 20  # seconds; waiting for a pipe would take forever

# Redirections by a shell that lose the results.
LOSSES = {
    "no space left on device": 'exec "$0" "$@" > /dev/full',
    "broken pipe": 'exec 3> >(:); wait $!; exec "$0" "$@" >&3 3>&-',
    "bad file descriptor": 'exec "$0" "$@" >&-',
}


class FilesTest(harness.RunTest):

    def setUp(self):
        super().setUp()
        self.cluster = self.folder / "cluster.yaml"
        self.rates = ["--set", "cluster.device.flops=1GFLOPS",
                      "--set", "cluster.mesh=[{name: r, size: 2, bandwidth: 1GB/s}]"]

    def in_shell(self, script, args, timeout=AT_ONCE, **options):
        """Runs the program without mpirun, by a script that calls it "$0" and its arguments "$@"."""
        return harness.run(0, ["-c", script, self.program, *args], program="bash",
                           timeout=timeout, **options)

    def commands(self):
        """Returns arguments of every subcommand with decks, the small ones; train and profile last."""
        decks = [self.deck, "--cluster", self.cluster]
        return [["validate", *decks], ["graph", self.deck], ["search", *decks, *self.rates],
                ["explain", *decks, *self.rates], self.train_args("run.h5", "train.steps=2"),
                ["profile", *decks, "--out", self.folder / "profile.yaml"]]

    def leftovers(self):
        """Returns the files that a run should have removed."""
        return [path for path in self.folder.rglob("*") if ".part" in path.name]


class Inputs(FilesTest):

    def test_pipes(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        validate, graph, search, explain, train, _ = self.commands()
        for kind, args in (
                ("deck", ["validate", pipe]),
                ("deck", ["validate", self.deck, "--cluster", pipe]),
                ("deck", ["graph", pipe]),
                ("strategy", [*validate, "--strategy", pipe]),
                ("hints", [*search, "--hints", pipe]),
                ("profile", [*explain, "--set", f"cluster.profile={pipe}"]),
                ("hints", self.train_args("run.h5", ["--strategy", "search", "--hints", pipe],
                                          self.rates)),
                ("profile", [*train, "--set", f"cluster.profile={pipe}"])):
            with self.subTest(kind=kind, command=args[0]):
                result = harness.run(2 if args[0] == "train" else 0, args, timeout=AT_ONCE)
                self.assert_one_error(result, FILE, f"cannot read the {kind} {pipe}", "a pipe")
        for kind in ("family", "layers", "hidden", "heads", "ffn", "dropout"):
            self.deck.write_text("".join(line for line in self.deck.read_text().splitlines(True)
                                         if f"  {kind}:" not in line))
        result = harness.run(0, [*graph, "--set", f"model.graph={pipe}"], timeout=AT_ONCE)
        self.assert_one_error(result, FILE, f"cannot read the graph {pipe}", "a pipe")

    def test_substituted_process(self):
        result = self.in_shell('exec "$0" validate <(cat "$1")', [self.deck])
        self.assert_one_error(result, FILE, "cannot read the deck /dev/fd/", "a pipe")

    def test_devices_and_sizes(self):
        huge = self.folder / "huge"
        huge.touch()
        os.truncate(huge, 1 << 40)
        for path, reason in (("/dev/zero", "a device"), (huge, "larger than")):
            for args in (["validate", path], ["validate", self.deck, "--strategy", path]):
                # The limit leaves no memory to read much of the file.
                result = self.in_shell('ulimit -v 1000000; exec "$0" "$@"', args)
                self.assert_one_error(result, FILE, str(path), reason)

    def test_kept_profile_is_none(self):
        environment = dict(XDG_CACHE_HOME=str(self.folder / "cache"))
        args = self.train_args("run.h5", "train.steps=2", "cluster.profile=auto", ["--overwrite"])
        self.assert_done(harness.run(1, args, env=environment))
        [kept] = (self.folder / "cache" / "hidup").iterdir()
        for make, kind, stays in ((os.mkfifo, "a pipe", False), (os.mkdir, "directory", True)):
            with self.subTest(kind=kind):
                kept.unlink()
                make(kept)
                result = harness.run(1, args, env=environment)
                self.assert_done(result)
                self.assertRegex(result.stderr, f"warning: the profile is measured anew: .*{kind}")
                self.assertEqual(kept.is_file(), not stays)
        self.assertIn("the profile is not kept", result.stderr)
        self.assertEqual(self.leftovers(), [])

    def test_working_folder_is_deleted(self):
        script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@"'
        for args in self.commands():
            for change in ([], ["--set", "data.path=/dev/null"]):
                with self.subTest(command=args[0], change=change):
                    result = self.in_shell(script, [*args, *change], cwd=self.folder)
                    self.assert_one_error(result, FILE, "working directory")
        result = self.in_shell(script, ["validate", "model.yaml"], cwd=self.folder)
        self.assert_one_error(result, FILE, "working directory")


class Results(FilesTest):

    def test_are_not_lost_in_silence(self):
        commands = [*self.commands(), ["doctor"], ["validate", "--keys"], ["--help"],
                    ["train", "--help"], ["--version"]]
        for reason, script in LOSSES.items():
            for args in commands:
                if args[0] in ("profile", "doctor") and reason != "broken pipe":
                    continue  # they take seconds
                with self.subTest(reason=reason, command=args[:2]):
                    overwrite = ["--overwrite"] if "--out" in args else []
                    result = self.in_shell(script, [*args, *overwrite], timeout=120)
                    self.assert_one_error(
                        result, FILE, f"standard output: cannot write the results: {reason}")

    def test_run_goes_on_without_them(self):
        args = self.train_args("run.h5", "train.steps=5")
        result = self.in_shell(LOSSES["no space left on device"], args)
        self.assert_one_error(result, FILE, "standard output")
        self.assertIn("warning: the run goes on", result.stderr)
        self.assertEqual(len(harness.losses(self.folder / "run.h5")), 5)


class Outputs(FilesTest):

    def test_old_strategy_survives_a_full_disk(self):
        strategy = self.folder / "mine.yaml"
        strategy.write_text("precious")
        for args in self.commands()[0], self.commands()[2]:
            # Files may have at most 1 KiB.
            result = self.in_shell('ulimit -f 1; exec "$0" "$@"',
                                   [*args, "--strategy-out", strategy, "--overwrite"])
            self.assert_one_error(result, FILE, str(strategy), "file too large")
            self.assertEqual(strategy.read_text(), "precious")
            self.assertEqual(self.leftovers(), [])

    def test_are_no_inputs(self):
        validate, _, search, _, train, profile = self.commands()
        strategy = self.folder / "mine.yaml"
        self.assert_done(harness.run(0, [*validate, "--strategy-out", strategy]))
        link = self.folder / "link"
        hard_link = self.folder / "hard.txt"
        link.symlink_to("model.yaml")
        os.link(self.folder / "text.txt", hard_link)
        with_profile = ["--set", f"cluster.profile={strategy}"]
        before = {path: path.read_bytes() for path in self.folder.iterdir()}
        out = train.index("--out") + 1
        for args, option, what in (
                ([*validate, "--strategy-out", self.deck], "--strategy-out", "the model deck"),
                ([*validate, "--strategy-out", link], "--strategy-out", "the model deck"),
                ([*search, "--strategy-out", self.cluster], "--strategy-out", "the cluster deck"),
                ([*search, "--strategy-out", hard_link], "--strategy-out", "the data"),
                ([*search, "--hints", strategy, "--strategy-out", strategy],
                 "--strategy-out", "the hints"),
                ([*validate, "--strategy", strategy, "--strategy-out", strategy],
                 "--strategy-out", "the strategy"),
                ([*search, *with_profile, "--strategy-out", strategy],
                 "--strategy-out", "the profile"),
                ([*train[:out], self.deck, *train[out + 1:]], "--out", "the model deck"),
                ([*train[:out], hard_link, *train[out + 1:]], "--out", "the data"),
                ([*train, "--dump-gradients", self.folder / "." / "run.h5"],
                 "--dump-gradients", "--out"),
                (self.train_args("run.h5", ["--strategy", strategy, "--dump-gradients", strategy]),
                 "--dump-gradients", "the strategy"),
                ([*profile[:-1], self.cluster], "--out", "the cluster deck")):
            with self.subTest(command=args[0], option=option, what=what):
                result = harness.run(0, [*args, "--overwrite"], timeout=AT_ONCE)
                self.assert_one_error(result, USAGE, option, f"is the same file as {what}")
        result = harness.run(2, self.train_args("model.yaml", ["--overwrite"]), timeout=AT_ONCE)
        self.assert_one_error(result, USAGE, "--out", "is the same file as the model deck")
        self.assertEqual({path: path.read_bytes() for path in self.folder.iterdir()}, before)

    def test_profile_may_be_measured_again(self):
        """An old profile is not read."""
        args = self.commands()[-1]
        args[-1].write_text("old")
        self.assert_done(harness.run(1, [*args, "--set", f"cluster.profile={args[-1]}",
                                         "--overwrite"]))
        self.assertIn("format_version", args[-1].read_text())

    def test_readers_find_a_run_that_replaces_another(self):
        out = self.folder / "run.h5"
        self.assert_done(harness.run(1, self.train_args(out.name, "train.steps=2")))
        with harness.Launch(2, self.train_args(out.name, "train.steps=100000",
                                               ["--overwrite"])) as launch:
            launch.wait_for_rows(out, 20)
            self.assertEqual(self.leftovers(), [])

    def test_output_is_taken_away_during_the_run(self):
        out = self.folder / "run.h5"
        kept = self.folder / "run.h5.kept"
        moved = self.folder / "moved.h5"
        for event, content in ((out.unlink, kept), (lambda: out.rename(moved), moved)):
            with self.subTest(content=content.name):
                with harness.Launch(2, self.train_args(out.name, "train.steps=1500")) as launch:
                    launch.wait_for_rows(out, 1)
                    event()
                    result = launch.wait(60)
                self.assert_one_error(result, FILE, f"{out}: was deleted or moved", str(content))
                self.assertEqual(len(harness.losses(content)), 1500)
                self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
