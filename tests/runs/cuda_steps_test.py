"""Steps that the CUDA back end records, and gives to the device ahead of the host.

Runs as cuda_test.py does; the stand-in for CUDA records the host's actions as NVTX ranges and calls.
"""

import signal
import sys
import unittest

import h5py
import numpy

import cuda_test
import harness

sys.path.insert(0, str(harness.SOURCE))
from analysis import facts  # noqa: E402

STOPPED, NOT_FINITE = 7, 9
NCCL = cuda_test.NCCL

setUpModule = cuda_test.setUpModule


def steps_of(tree):
    return [children for name, children in tree if name.startswith("step ")]


def instructions(tree):
    """Returns, for every step, the names of the instructions that the host gave."""
    return [[name for name, _ in children if not name.startswith("cuda")]
            for children in steps_of(tree)]


class StepsTest(cuda_test.DeviceTest):

    def ranges(self, ranks, *more, steps):
        """Returns, for every rank, the names of its run's NVTX ranges, and of the calls that the stand-in for
        CUDA adds, as a tree: [(name, [...]), ...]."""
        return self.ranges_of(ranks, self.train_args("nvtx.h5", f"train.steps={steps}", *more))

    def ranges_of(self, ranks, arguments):
        """Does the same for any run that writes nvtx.h5."""
        prefix = self.folder / "nvtx"
        self.assert_done(harness.run(ranks, arguments, timeout=400, env={"CUDA_SHIM_NVTX": str(prefix)}))
        trees = []
        for path in self.folder.glob("nvtx.[0-9]*"):
            open_ranges = [("", [])]
            for line in path.read_text().splitlines():
                kind, _, name = line.partition(" ")
                if kind == "pop":
                    open_ranges.pop()
                    continue
                open_ranges[-1][1].append((name.removeprefix("hidup: "), []))
                if kind == "push":
                    open_ranges.append(open_ranges[-1][1][-1])
            self.assertEqual(len(open_ranges), 1, f"{path}: unbalanced")
            trees.append(open_ranges[0][1])
            path.unlink()
        (self.folder / "nvtx.h5").unlink()
        self.assertEqual(len(trees), ranks)
        return trees

    def assert_graph_gives_the_same_bits(self, ranks, backend):
        """The learning rate, the data and dropout change with every step, the graph does not."""
        self.write_deck(moe=cuda_test.EXPERTS)
        one, other = (
            self.train(ranks, f"cluster.device.graph={graph}", "train.microbatches=2",
                       f"cluster.comm.backend={backend}", "train.schedule=cosine",
                       "train.warmup_steps=5", steps=25)
            for graph in ("off", "auto"))
        self.assertEqual(one.loss.tolist(), other.loss.tolist())
        self.assertEqual(one.grad_norm.tolist(), other.grad_norm.tolist())
        for name, gradient in one.gradients.items():
            self.assertEqual(gradient.tolist(), other.gradients[name].tolist(), name)
        self.assert_steps_follow(other)

    @cuda_test.of_one_gpu
    def test_a_graph_gives_the_same_bits(self):
        self.assert_graph_gives_the_same_bits(1, "auto")

    def test_a_graph_of_two_ranks_gives_the_same_bits(self):
        self.with_devices(2)
        self.assert_graph_gives_the_same_bits(2, "nccl")

    def assert_steps_follow(self, run):
        """A recorded or replayed step has its own times on every rank. Clocks of ranks agree only roughly."""
        with h5py.File(run.path) as file:
            step, rank, start, end = (file[f"timeline/{name}"][:]
                                      for name in ("step", "rank", "start_s", "end_s"))
        self.assertTrue((end >= start).all())
        for i in (2, 3):
            for r in set(rank):
                self.assertGreater(start[(step == i) & (rank == r)].min(),
                                   end[(step == i - 1) & (rank == r)].max())

    @unittest.skipUnless(cuda_test.SHIM, "the shim writes ranges down")
    def test_what_is_recorded(self):
        """Instructions are given one by one in the first step, then to record them with times, then to record
        them without, and never again; with MPI, which the host calls, in every step."""
        tree, = self.ranges(1, steps=5)
        first, *rest = instructions(tree)
        self.assertGreater(len(first), 50)
        self.assertIn("embedding embedding", first)
        self.assertEqual(rest, [first, [], first, []])
        tree, = self.ranges(1, "cluster.device.graph=off", steps=3)
        self.assertEqual(instructions(tree), [first] * 3)
        self.with_devices(2)
        for tree in self.ranges(2, NCCL, steps=5):
            first, *rest = instructions(tree)
            self.assertIn("all_reduce", " ".join(first))
            self.assertEqual(rest, [first, [], first, []])
        for tree in self.ranges(2, "cluster.comm.backend=mpi", steps=3):
            one, *rest = instructions(tree)
            self.assertIn("all_reduce", " ".join(one))
            self.assertEqual(rest, [one] * 2)

    @unittest.skipUnless(cuda_test.SHIM, "the shim writes ranges down")
    def test_a_profile_times_operations_as_they_are_recorded(self):
        """The profile gives instructions one by one where training does."""
        self.with_devices(2)
        for backend, recorded in (("nccl", True), ("mpi", False)):
            with self.subTest(backend=backend):
                for tree in self.ranges_of(2, [
                        "profile", self.deck, "--cluster", self.folder / "cluster.yaml",
                        "--out", self.folder / "nvtx.h5", "--set",
                        f"cluster.comm.backend={backend}"]):
                    steps = instructions(tree)
                    program = steps[0]
                    self.assertGreater(len(program), 50)
                    # These steps follow the first one, which warms up, and the one that records.
                    self.assertEqual(steps[1:4], [program] + 2 * [[] if recorded else program])

    @unittest.skipUnless(cuda_test.SHIM, "the shim writes ranges and calls down")
    def test_results_are_read_when_the_next_step_was_given(self):
        """Steps are timed up to the third and every fifth; validation (of two batches) and checkpoints need
        the parameters between two steps."""
        late = {1, 2, 3, 5, 10, 11}  # timed, or the last
        self.with_devices(2)
        for more, waited in (((), late), (("train.checkpoint.every_steps=6",), late | {6}),
                             (("train.validate_every=7", "data.validation=0.03"), late | {7})):
            with self.subTest(more=more):
                for tree in self.ranges(2, NCCL, "cluster.device.timed_every=5", ["--overwrite"],
                                        *more, steps=11):
                    names = [name for name, _ in tree]
                    early = [step for step in range(1, 11)
                             if names.index(f"step {step + 1}") < names.index(f"wait for step {step}")]
                    self.assertEqual(early, [step for step in range(1, 11) if step not in waited])
                    calls = {name: [call for call, _ in children] for name, children in tree}
                    for step in early:
                        self.assertIn("cudaGraphLaunch", calls[f"step {step + 1}"])
                        self.assertIn("cudaEventSynchronize", calls[f"wait for step {step}"])
                        self.assertNotIn("cudaStreamSynchronize", calls[f"step {step}"])

    @cuda_test.of_one_gpu
    def test_stops_between_steps(self):
        """A stopped run resumes with the bits of a run that was not stopped."""
        for_ever = "train.steps=100000"
        with harness.Launch(1, self.train_args("run.h5", for_ever)) as launch:
            launch.wait_for_rows(self.folder / "run.h5", 15)
            launch.signal(signal.SIGUSR1)
            result = launch.wait(harness.SOON)
        self.assertEqual(result.code, STOPPED, result.stderr)
        stopped = harness.losses(self.folder / "run.h5")
        checkpoint, = (self.folder / "run.ckpt").glob("step-*.ckpt.h5")
        self.assertEqual(checkpoint.name, f"step-{len(stopped):08}.ckpt.h5")
        steps = len(stopped) + 6
        self.assert_done(harness.run(1, self.train_args(
            "run.h5", f"train.steps={steps}", ["--resume", "auto"])))
        whole = self.train(1, steps=steps)
        joined = [*stopped, *harness.losses(self.folder / "run-2.h5")]
        self.assertEqual(joined, whole.loss.tolist())

    @cuda_test.of_one_gpu
    def test_a_step_that_is_not_finite_changes_nothing(self):
        """Neither that step nor the one given after it changes anything: the error names the same
        instruction. (It is the eighth, as the learning rate rises.)"""
        messages = []
        for graph in ("off", "auto"):
            with self.subTest(graph=graph):
                result = harness.run(1, self.train_args(
                    f"{graph}.h5", f"cluster.device.graph={graph}", "train.lr=1000",
                    "train.warmup_steps=400", "train.steps=1000"))
                self.assert_one_error(result, NOT_FINITE, "the first output that is not finite")
                messages += result.error_lines()
        self.assertEqual(messages[0], messages[1])

    def test_steps_between_timed_ones_have_no_times(self):
        self.with_devices(2)
        for graph, timed in (("auto", [1, 2, 3, 5, 10]), ("off", range(1, 12))):
            with self.subTest(graph=graph):
                run = self.train(2, NCCL, f"cluster.device.graph={graph}",
                                 "cluster.device.timed_every=5", steps=11)
                with h5py.File(run.path) as file:
                    for name in ("compute_s", "comm_s", "exposed_comm_s"):
                        known = numpy.isfinite(file[f"ranks/{name}"][:])
                        self.assertEqual(known.tolist(), [[step in timed] * 2
                                                          for step in range(1, 12)])
                self.assertGreater(facts.of_run(str(run.path))["compute_s"], 0.0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
