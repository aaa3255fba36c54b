"""jobs/experiments: run lists, predicted and on this machine, and the figures of their results."""

import contextlib
import io
import json
import os
import signal
import sys
import unittest

import h5py
import yaml

import harness

EXPERIMENTS = harness.SOURCE / "jobs" / "experiments"
sys.dont_write_bytecode = True
sys.path[:0] = [str(EXPERIMENTS), str(harness.SOURCE)]
import run_list  # noqa: E402
from analysis import __main__ as analysis  # noqa: E402

FAILED, WRONG = 1, 2
TINY = {"model.layers": 2, "model.hidden": 24, "model.ffn": 32, "model.heads": 3,
        "model.sequence": 16, "model.vocab": 50, "train.batch": "4 x ranks", "train.steps": 5}


class ExperimentTest(harness.RunTest):

    def setUp(self):
        super().setUp()
        self.list = self.folder / "few.yaml"
        self.out = self.folder / "out"

    def entry(self, **changes):
        """Returns an entry of a list: two runs, on 1 and 2 ranks."""
        return {"for": {"ranks": [1, 2], "system": ["duplex-only"]}, "ranks": "{ranks}",
                "deck": "inputs/models/paper/bert-sgmoe.yaml", "system": "{system}",
                "cluster": "inputs/clusters/laptop.yaml", "set": TINY, **changes}

    def write(self, *entries):
        self.list.write_text(yaml.safe_dump({"about": "a test", "full": list(entries)}))

    def start(self, *args):
        with self.launch(*args) as launch:
            return launch.wait(120)

    @staticmethod
    def launch(*args):
        return harness.Launch(0, ["-B", EXPERIMENTS / "run.py", *args], program=sys.executable,
                              env={"HIDUP": str(harness.BINARY)})

    def run_list(self, *args, code=0):
        """Returns the output of run.py for the list."""
        result = self.start(self.list, "--out", self.out, *args)
        self.assertEqual(result.code, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def analysis(self, command, *args, code=0):
        """Returns the output of python3 -m analysis."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            found = analysis.main([command, *map(str, args)])
        self.assertEqual(found, code, printed.getvalue())
        return printed.getvalue()


class Lists(unittest.TestCase):

    def test_all_lists(self):
        """Every list has both sizes, and names existing files."""
        names = run_list.experiments()
        self.assertGreater(len(names), 7)
        for name in names:
            for size in ("full", "small"):
                with self.subTest(name=name, size=size):
                    about, runs = run_list.read(name, size)
                    self.assertTrue(about and runs)

    def test_what_a_run_is_made_of(self):
        _, runs = run_list.read("scaling")
        run = next(run for run in runs if run.name == "bert-switch-32-strategy-only-one")
        self.assertEqual((run.deck, run.ranks, run.strategy, run.search_with),
                         ("inputs/models/paper/bert-switch.yaml", 32, "search", {}))
        self.assertEqual(run.settings["cluster.mesh.gpus.size"], 32)
        self.assertEqual(run.settings["train.microbatches"], 1)

    def test_each_run_on_one_axis_and_on_two(self):
        """On two axes the ranks are spread over all machines, and those of a machine share its card."""
        for name, both in (("scaling", 160), ("bandwidth", 280)):
            _, runs = run_list.read(name)
            layouts = [[run.name.removesuffix(f"-{axes}") for run in runs if run.at["axes"] == axes]
                       for axes in ("one", "two")]
            self.assertEqual((len(runs), sorted(layouts[0])), (both, sorted(layouts[1])))
        _, runs = run_list.read("scaling")
        for run in (run for run in runs if run.at["axes"] == "two"):
            for key in ("cluster.mesh.gpu.size", "cluster.mesh.node.shared"):
                self.assertEqual(8 * run.settings[key], run.ranks, run.name)


class Predicted(ExperimentTest):

    def test_figures_of_what_is_predicted(self):
        for name, command in (("bandwidth", "bandwidth"), ("searchtime", "searchtime"),
                              ("noise", "noise"), ("halved-batch", "systems")):
            with self.subTest(name=name):
                folder = self.folder / name
                result = self.start(name, "--size", "small", "--predict", "--out", folder)
                self.assertEqual(result.code, 0, result.stderr)
                text = self.analysis(command, folder)
                if name == "halved-batch":  # in turn: the sum of both
                    self.assertRegex(text, "bert-sgmoe, 4 parts: .* overlap 0%")
                for kind in ("png", "svg"):
                    self.assertGreater((folder / f"{command}.{kind}").stat().st_size, 3000)

    def test_every_list_has_small_runs_without_a_place(self):
        for name in run_list.experiments():
            with self.subTest(name=name):
                result = self.start(name, "--size", "small", "--list", "--out", self.folder / name)
                self.assertEqual(result.code, 0, result.stderr)
                self.assertRegex(result.stdout, r"\d+ runs, together about")
                self.assertEqual("its runs are predicted" in result.stderr,
                                 name in ("bandwidth", "bandwidth-hosts"))
        result = self.start("bandwidth", "--testbed", "--list", "--out", self.folder / "none")
        self.assertEqual((result.code, "no run for --testbed" in result.stderr), (WRONG, True))

    def test_the_rate_decides(self):
        """The slower link makes the longer step, and a strategy that does not fit is a result."""
        self.write(self.entry(**{"for": {"rate": [1, 10]}, "rate": "{rate}", "ranks": 2,
                                 "system": "ep-deepspeed"}),
                   self.entry(name="large", **{"for": {}}, ranks=2, system="hidup",
                              set={**TINY, "cluster.device.memory": "1MiB", "model.vocab": 30000}))
        self.assertIn("no ranks", self.run_list("--predict"))
        slow, fast = (self.result(name)["predicted_iteration_s"] for name in ("1", "10"))
        self.assertGreater(slow, 1.1 * fast)
        self.assertIn("no strategy fits", self.result("large")["infeasible"])
        self.assertIn("rates of links", self.run_list(code=WRONG))

    def result(self, name):
        return json.loads((self.out / f"{name}.json").read_text())["result"]

    def test_folders_that_hold_nothing(self):
        self.assertIn("no such folder", self.analysis("scaling", self.folder / "none", code=2))
        self.out.mkdir()
        (self.out / "half.json").write_text("{")
        (self.out / "half.h5").write_text("no timing file")
        text = self.analysis("scaling", self.out, code=2)
        self.assertIn("half.json", text)
        self.assertIn("half.h5: not finished", text)
        self.assertIn("no finished run", text)


class Measured(ExperimentTest):

    def test_each_run_once(self):
        self.write(self.entry())
        self.assertIn("2 runs, together about", self.run_list("--list"))
        self.assertEqual(list(self.out.glob("*.h5")), [])
        printed = self.run_list()
        self.assertRegex(printed, r"2-duplex-only +2 rank\(s\) +about \d+\.\d s +\d+ MiB a rank")
        times = self.times()
        for name, ranks in (("1-duplex-only", 1), ("2-duplex-only", 2)):
            with h5py.File(self.out / f"{name}.h5") as file:
                self.assertEqual(file.attrs["world_size"], ranks)
                self.assertEqual(len(file["iterations/loss"]), TINY["train.steps"])
                self.assertEqual(json.loads(file.attrs["experiment_run"])["at"]["ranks"], ranks)
        self.assertEqual(self.run_list().count("done\n"), 2)
        self.assertEqual(self.times(), times)
        self.run_list("--only", "2-*", "--set", "train.steps=4")  # another run of that name
        self.assertEqual(self.times()["1-duplex-only"], times["1-duplex-only"])
        self.assertGreater(self.times()["2-duplex-only"], times["2-duplex-only"])

    def test_a_profile_first(self):
        self.write(self.entry())
        self.run_list("--only", "1-*")
        self.assertEqual(list(self.out.glob("profile-*")), [])
        printed = self.run_list("--only", "1-*", "--profile")  # another run of that name
        self.assertNotIn("done", printed)
        self.assertTrue((self.out / "profile-bert-sgmoe-laptop-1.yaml").exists())
        self.assertEqual(self.run_list("--only", "1-*", "--profile").count("  done\n"), 1)

    def test_unequal_devices_are_emulated(self):
        """Three devices of speeds 4 : 2 : 1, whose emulated times are exact."""
        result = self.start("unequal", "--size", "small", "--only", "*-three-speeds-*", "--out", self.out)
        self.assertEqual(result.code, 0, result.stdout + result.stderr)
        seconds = {}
        for system in ("hidup", "dp-ev", "dp-cp", "ep-deepspeed"):
            with h5py.File(self.out / f"bert-sgmoe-three-speeds-{system}.h5") as file:
                self.assertEqual(file.attrs["world_size"], 3)
                seconds[system] = file["iterations/wall_s"][-1]
        self.assertLess(seconds["hidup"], 0.5 * seconds["dp-ev"])
        self.assertLess(seconds["dp-cp"], 0.5 * seconds["dp-ev"])
        text = self.analysis("systems", self.out)
        self.assertIn("strategies of hidup, emulated", text)
        self.assertRegex(text, "bert-sgmoe, 1:0.5:0.25, dp-ev: wall")

    def times(self):
        return {path.stem: path.stat().st_mtime for path in self.out.glob("*.h5")}

    def test_going_on_after_a_kill(self):
        """Finished runs stay, others are run again, and no rank is left behind."""
        self.write(self.entry(name="short", **{"for": {}}, ranks=1, system="dp"),
                   self.entry(name="long", **{"for": {}}, ranks=2, system="dp",
                              set={**TINY, "train.steps": 10000000}))
        with self.launch(self.list, "--out", self.out) as launch:
            launch.wait_for_rows(self.out / "long.h5", 3)
            self.assertIn("another run.py", self.run_list(code=WRONG))
            (mpirun,) = harness.children(launch._process.pid)
            ranks = [pid for pid in harness.children(mpirun)]
            self.assertEqual(len(ranks), 2)
            launch.signal(signal.SIGKILL)
            self.assertFalse(harness.left_alive([mpirun, *ranks], harness.SOON))
        before = self.times()
        self.write(self.entry(name="short", **{"for": {}}, ranks=1, system="dp"),
                   self.entry(name="long", **{"for": {}}, ranks=2, system="dp"))
        self.assertEqual(self.run_list().count("done\n"), 1)
        self.assertEqual(self.times()["short"], before["short"])
        with h5py.File(self.out / "long.h5") as file:
            self.assertEqual(len(file["iterations/loss"]), TINY["train.steps"])

    def test_a_run_that_fails(self):
        """The other runs still run; the message is hidup's."""
        self.write(self.entry(name="bad", **{"for": {}}, ranks=1, system="dp",
                              set={**TINY, "model.hidden": 25}),
                   self.entry(name="good", **{"for": {}}, ranks=1, system="dp"))
        printed = self.run_list(code=FAILED)
        self.assertIn("bad: failed: hidup: error: ", printed)
        self.assertIn("1 of 2 runs failed", printed)
        self.assertEqual(self.run_list(code=FAILED).count("done\n"), 1)


class Wrong(ExperimentTest):

    def test_wrong_lists(self):
        cases = [
            (self.entry(dekc="x"), "unknown key dekc"),
            (self.entry(ranks="{rank}"), "names that `for` lacks"),
            (self.entry(ranks=0), "ranks is 0"),
            (self.entry(deck="inputs/models/none.yaml"), "there is no file"),
            (self.entry(system="deepspeed"), "no system 'deepspeed'"),
            (self.entry(strategy="dp"), "a system or a strategy"),
            (self.entry(rate=-1), "rate is -1"),
            (self.entry(kind="walk"), "kind is 'walk'"),
            (self.entry(name="same"), "two runs are named same"),
            (self.entry(name="a/b"), "without slashes"),
            (self.entry(places=["moon"]), "places is ['moon']"),
            ({"ranks": 1, "deck": "x"}, "cluster is missing"),
            ("dp", "expected keys with values"),
        ]
        for entry, message in cases:
            with self.subTest(message=message):
                self.write(entry)
                with self.assertRaises(run_list.ListError) as raised:
                    run_list.read(self.list)
                self.assertIn(message, str(raised.exception))
                self.assertIn("few.yaml: full, entry 1", str(raised.exception))

    def test_wrong_arguments(self):
        self.assertIn("no experiment 'scalign'", self.start("scalign").stderr)
        self.write(self.entry())
        self.assertIn("no run", self.run_list("--only", "x*", code=WRONG))
        self.assertIn("KEY=VALUE", self.run_list("--set", "x", code=WRONG))
        self.assertIn("small is missing", self.run_list("--size", "small", code=WRONG))
        if not os.path.exists("/run/hidup-testbed/settings"):
            self.assertIn("no test bed is up", self.run_list("--testbed", code=WRONG))


if __name__ == "__main__":
    unittest.main(verbosity=2)
