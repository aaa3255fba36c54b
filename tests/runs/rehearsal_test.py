"""jobs/rehearse.sh: the properties of the real plan that a rehearsal keeps, and its warnings."""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import unittest

import harness

JOBS = harness.SOURCE / "jobs"
INPUTS = harness.SOURCE / "inputs"
spec = importlib.util.spec_from_file_location("rehearsal", JOBS / "rehearsal.py")
rehearsal = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rehearsal)


class RehearsalTest(harness.RunTest):

    def plan(self, model, cluster, ranks, strategy, *settings, code=0):
        out = self.folder / "plan"
        done = subprocess.run(
            ["/usr/bin/python3", JOBS / "rehearsal.py", harness.BINARY, INPUTS / "models" / model,
             INPUTS / "clusters" / cluster, str(ranks), strategy, out, *settings],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return out, done.stderr

    def explain(self, model, cluster, ranks, strategy, settings):
        words = ["explain", INPUTS / "models" / model, "--cluster", INPUTS / "clusters" / cluster,
                 "--ranks", ranks, "--strategy", strategy, "--json"]
        for setting in settings:
            words += ["--set", setting]
        done = harness.run(0, words)
        self.assert_done(done)
        return json.loads(done.stdout)

    def test_strategy_and_ratio_of_a_searched_plan_are_kept(self):
        """Without the plan, the search for the small model replicates everything on these ranks. Most of the
        time goes into the search for the real model, twice."""
        job = ("llama-7b.yaml", "a100-4x8.yaml")
        out, warnings = self.plan(*job, 8, "search")
        self.assertEqual(warnings, "")
        real, small = (rehearsal.Plan(f"{out}{end}") for end in (".real.yaml", ".yaml"))
        self.assertEqual((list(real.mesh.items()), list(small.mesh.items())),
                         ([("node", 4), ("gpu", 8)], [("node", 2), ("gpu", 4)]))
        self.assertEqual(real.head, small.head)
        of_real = {0: 0, 1: 10, 2: 21, 3: 31}
        for mine, theirs in ((small.operations, real.operations),
                             (small.parameters, real.parameters)):
            for name, choice in mine.items():
                like = re.sub(r"(?<=layers\.)\d+", lambda at: str(of_real[int(at[0])]), name)
                self.assertEqual(choice, theirs[like], name)
        with open(f"{out}.settings", encoding="utf-8") as file:
            settings = file.read().splitlines()
        planned = self.explain(*job, 32, f"{out}.real.yaml", [])
        here = self.explain(*job, 8, f"{out}.yaml", settings)
        ratio, real_ratio = (plan["predicted_comm_s"] / plan["predicted_compute_s"]
                             for plan in (here, planned))
        self.assertGreater(real_ratio, 0.1)
        self.assertAlmostEqual(ratio / real_ratio, 1.0, delta=0.02)
        with open(f"{out}.kept", encoding="utf-8") as file:
            self.assertIn(f"communication / computation {ratio:.4f}", file.read())

    def test_what_cannot_be_kept_is_said(self):
        _, error = self.plan("llama-7b.yaml", "a100-4x8.yaml", 2, "dp", code=2)
        self.assertIn("2 rank(s) cannot keep a plan for node 4 x gpu 8", error)
        # Ranks of the slow device do not wait for a link.
        _, warnings = self.plan("gpt2-350m.yaml", "v100-1x8.yaml", 8, "fsdp",
                                "cluster.devices=[{count: 4, flops: 8TFLOPS}, "
                                "{count: 4, flops: 4TFLOPS}]")
        self.assertRegex(warnings, "warning: not kept: communication along gpus takes 0.* in the "
                                   "real plan")

    def test_pipelines_by_name_alone(self):
        job = ("gpt2-350m.yaml", "v100-1x8.yaml", 4)
        out, _ = self.plan(*job, "pipeline", "train.pipeline=zb-h1")
        for end in (".real.yaml", ".yaml"):
            self.assertIn("schedule: {axis: gpus, name: zb-h1}",
                          pathlib.Path(f"{out}{end}").read_text(encoding="utf-8"))
        file = pathlib.Path(f"{out}.real.yaml").rename(self.folder / "pipeline.yaml")
        _, error = self.plan(*job, file, code=2)
        self.assertIn("the plan is a pipeline", error)

    def test_a_rehearsal(self):
        out = self.folder / "rehearsal"
        done = subprocess.run(
            [JOBS / "rehearse.sh", INPUTS / "models" / "bert-sgmoe.yaml",
             INPUTS / "clusters" / "v100-8x8-10gbps-flat.yaml", "2", "train.microbatches=2"],
            env={**os.environ, "STRATEGY": "ep-deepspeed", "STEPS": "2", "OUT": str(out),
                 "HIDUP": str(harness.BINARY)}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        ratios = re.findall(r"(?:real plan|rehearsed) +ep-deepspeed on gpus (\d+), 2 microbatch.*"
                            r"communication / computation ([\d.]+)", done.stdout)
        self.assertEqual([ranks for ranks, _ in ratios], ["64", "2"])
        self.assertAlmostEqual(float(ratios[0][1]) / float(ratios[1][1]), 1.0, delta=0.01)
        simulated, emulated = (float(re.search(rf"^{name} +([\d.]+) ms", done.stdout, re.M)[1])
                               for name in ("simulated", "emulated"))
        self.assertAlmostEqual(emulated / simulated, 1.0, places=4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
