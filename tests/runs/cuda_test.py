"""The CUDA back end: whole runs equal those of the CPU.

HIDUP_BINARY is built for CUDA, on the shim (ctest's cuda_shim.*) or for GPUs (jobs/gpu.sh), HIDUP_CPU_BINARY
for CPUs, and HIDUP_DEVICE is cuda. On a machine with one GPU the ranks share it, and tests that need two are
skipped. With CUDA_SHIM_DEVICES=N the shim acts as a machine with N GPUs; gpu_rehearsal_test.py runs the tests
for one GPU so. Without it the shim has as many GPUs as a test asks for.
"""

import os
import re
import unittest

import harness

INFEASIBLE, OUT_OF_MEMORY, COMMUNICATION, UNAVAILABLE = 3, 4, 5, 8
NCCL = "cluster.comm.backend=nccl"
EXPERTS = "{experts: 3, every: 2, router: top2, capacity_factor: 1.25}"

DOCTOR = harness.run(0, ["doctor"]).stdout
ON_SHIM = "CUDA shim" in DOCTOR
SHIM = ON_SHIM and "CUDA_SHIM_DEVICES" not in os.environ
of_one_gpu = unittest.skipIf(SHIM, "gpu_rehearsal_test.py runs it")
# Two ranks take the GPUs in turn, so the doctor lists up to two.
BUS_IDS = sorted(set(re.findall(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}[.]0",
                                harness.run(2, ["doctor"]).stdout)))
ONE_DEVICE = {"CUDA_SHIM_DEVICES": "1",
              "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]}
# The tolerance is relative, of every step's loss. A GPU's own functions round differently from the CPU's,
# which the shim uses.
TOLERANCE = harness.STEP_TOLERANCE if ON_SHIM else 1e-4


def setUpModule():
    if "no GPU is found" in DOCTOR:
        raise unittest.SkipTest("no GPU is found")


class DeviceTest(harness.RunTest):

    def with_devices(self, count):
        if not SHIM:
            if len(BUS_IDS) < count:
                self.skipTest(f"this needs {count} GPUs, here is {len(BUS_IDS)}")
            return
        os.environ["CUDA_SHIM_DEVICES"] = str(count)
        self.addCleanup(os.environ.pop, "CUDA_SHIM_DEVICES", None)


class CudaTest(DeviceTest):

    def train_on_cpu(self, *more):
        self.program = os.environ["HIDUP_CPU_BINARY"]
        one = self.train(1, "cluster.device.kind=cpu", *more)
        self.program = harness.BINARY
        return one

    @of_one_gpu
    def test_equals_the_cpu(self):
        cpu = self.train_on_cpu()
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.assert_equal_runs(cpu, self.train(ranks, "cluster.comm.backend=mpi"),
                                       TOLERANCE)

    @of_one_gpu
    def test_strategies_and_microbatches(self):
        self.write_deck(moe=EXPERTS)
        cpu = self.train_on_cpu()
        # The other strategies run on the stand-in with NCCL.
        for strategy in ("megatron-sp",) if ON_SHIM else ("fsdp", "ep-fastmoe", "megatron-sp", "ps"):
            with self.subTest(strategy=strategy):
                self.assert_equal_runs(cpu, self.train(2, ["--strategy", strategy],
                                                       "train.microbatches=2"), TOLERANCE)

    def test_strategies_and_microbatches_with_nccl(self):
        self.with_devices(2)
        self.write_deck(moe=EXPERTS)
        cpu = self.train_on_cpu()
        for strategy in ("fsdp", "ep-fastmoe", "ps", "pipeline"):
            with self.subTest(strategy=strategy):
                self.assert_equal_runs(cpu, self.train(
                    2, ["--strategy", strategy], "train.microbatches=2", NCCL,
                    "cluster.comm.register_buffers=on", "cluster.comm.max_ctas=2"), TOLERANCE)

    @of_one_gpu
    def test_repetition_is_exact(self):
        one, again = self.train(2), self.train(2)
        self.assertEqual(one.loss.tolist(), again.loss.tolist())

    @of_one_gpu
    def test_algorithms_of_a_profile(self):
        profile = self.folder / "profile.yaml"
        timed = "cluster.device.algorithms=timed"
        result = harness.run(2, ["profile", self.deck, "--cluster", self.folder / "cluster.yaml",
                                 "--out", profile, "--set", timed], timeout=400)
        self.assertEqual(result.code, 0, result.stderr)
        runs = [self.train(2, timed, f"cluster.profile={profile}") for _ in range(2)]
        self.assertEqual(runs[0].loss.tolist(), runs[1].loss.tolist())
        self.assert_equal_runs(self.train(2), runs[0], TOLERANCE)
        self.assert_one_error(self.launch(2, f"cluster.profile={profile}"), 2,
                              "timed algorithms")

    @unittest.skipUnless(SHIM, "GPUs have as many as they have")
    def test_multiprocessors_for_messages(self):
        os.environ["CUDA_SHIM_MULTIPROCESSORS"] = "4"
        self.addCleanup(os.environ.pop, "CUDA_SHIM_MULTIPROCESSORS")
        reserved = "cluster.device.reserved_multiprocessors="
        self.assert_equal_runs(self.train(2), self.train(2, reserved + "3"), TOLERANCE)
        self.assert_one_error(self.launch(2, reserved + "4"), 2,
                              "4 multiprocessor(s) to messages, of 4")

    def launch(self, ranks, *more, **environment):
        return harness.run(ranks, self.train_args("out.h5", "train.steps=1", *more),
                           env=environment)

    @of_one_gpu
    def test_without_a_device(self):
        for ranks in (1, 2):
            result = self.launch(ranks, CUDA_SHIM_DEVICES="0", CUDA_VISIBLE_DEVICES="")
            self.assert_one_error(result, UNAVAILABLE, "cluster.device.kind is cuda",
                                  "no CUDA-capable device is detected")

    @of_one_gpu
    def test_other_kinds(self):
        result = self.launch(1, "cluster.device.kind=cpu")
        self.assert_one_error(result, UNAVAILABLE, "built for CUDA ranks only")

    def assert_backend(self, expected, **environment):
        """The backend auto is NCCL where every rank has a GPU, which NCCL needs."""
        result = self.launch(2, ["--overwrite"], **environment)
        self.assert_done(result)
        self.assertIn(f"collectives: {expected}", result.stderr)

    def test_backend_of_ranks_that_share_a_gpu(self):
        self.assert_backend("mpi, because ranks 0 and 1 share", **ONE_DEVICE)
        result = self.launch(2, ["--overwrite"], NCCL, **ONE_DEVICE)
        self.assert_one_error(result, UNAVAILABLE, "ranks 0 and 1 share the GPU", BUS_IDS[0])

    def test_backend_of_ranks_with_gpus_of_their_own(self):
        self.with_devices(2)
        self.assert_backend("nccl\n")

    @unittest.skipUnless(SHIM, "the shim's NCCL has faults on demand")
    def test_rank_that_does_not_come(self):
        """A rank misses a collective that the host gives, and one of a graph that the device repeats.
        (tests/comm tests every other fault.) The timeout is longer than a step takes where cores are shared.
        """
        for graph, fault, *expected in (
                ("off", "hang", "rank 1 did not come to all_reduce of ",
                 " along ranks, in which rank 0 has waited for 4."),
                ("auto", "stall", " does not end, though its ranks 0, 1 all came to it")):
            with self.subTest(graph=graph):
                result = self.launch(2, NCCL, "train.steps=1000", f"cluster.device.graph={graph}",
                                     "cluster.comm.collective_timeout=4s", ["--overwrite"],
                                     CUDA_SHIM_DEVICES="2",
                                     HIDUP_FAKE_NCCL_FAULT=f"{fault}:rank=1:call=40")
                self.assert_one_error(result, COMMUNICATION, *expected)
                self.assertLess(result.seconds, harness.SOON)

    @of_one_gpu
    def test_too_little_memory(self):
        """The error comes before any allocation, with the largest tensors."""
        result = self.launch(2, "model.hidden=96", "model.sequence=256", "cluster.device.memory=1MiB")
        self.assert_one_error(result, OUT_OF_MEMORY, "the device has 1.00 MiB", "the largest tensors")
        self.assertRegex(result.error_lines()[0], r"the plan needs [0-9.]+ MiB")

    @unittest.skipUnless(SHIM, "the shim has as much free memory as it is told")
    def test_memory_that_is_free(self):
        """Plans get the free memory without the communicators: 1 MiB of a rank, less 1/32."""
        def beside(free_mib):
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            return {"CUDA_SHIM_USED_MEMORY": str(total - (free_mib << 20))}

        large = ("model.hidden=96", "model.sequence=256")
        nccl = {"CUDA_SHIM_DEVICES": "2", "CUDA_SHIM_NCCL_MEMORY": str(63 << 20)}
        rates = ("cluster.device.flops=1GFLOPS", "cluster.mesh=[{name: ranks, size: auto, "
                 "bandwidth: 1GB/s, latency: 10us}]")
        for environment in (beside(2), {**beside(64), **nccl}):
            with self.subTest(environment=environment):
                result = self.launch(2, *large, **environment)
                self.assert_one_error(result, OUT_OF_MEMORY, "the plan needs",
                                      "the device has 99", " KiB free for this rank")
                result = self.launch(2, *large, *rates, ["--strategy", "search"], **environment)
                self.assert_one_error(result, INFEASIBLE, "fits in 99", " KiB per rank")
        result = harness.run(2, ["doctor", *self.train_args("out.h5", *large)[1:]], env=beside(2))
        self.assertIn("the device has 99", result.stdout)
        result = self.launch(2, *large, "cluster.device.memory=1GiB", **beside(2))
        self.assert_one_error(result, OUT_OF_MEMORY, "the device has 2.00 MiB that are free")

    def assert_devices(self, doctor, numbers, parts):
        """Checks every rank's device, and its share of the memory."""
        whole, = re.findall(r"0000:00:00.0 +([0-9.]+) GiB", DOCTOR)
        rows = re.findall(r"0000:(..):00.0 +([0-9.]+) GiB", doctor)
        self.assertEqual([int(number) for number, _ in rows], numbers)
        for (_, size), part in zip(rows, parts):
            self.assertAlmostEqual(float(size), float(whole) * part, places=1)

    @unittest.skipUnless(SHIM, "the shim has as many devices as it is told")
    def test_ranks_take_devices_in_turn(self):
        """Ranks that use a device share its memory."""
        doctor = harness.run(3, ["doctor"], env={"CUDA_SHIM_DEVICES": "2"}).stdout
        self.assert_devices(doctor, [0, 1, 0], (1 / 2, 1, 1 / 2))

    @unittest.skipUnless(SHIM, "the shim shows each rank the device that it is told")
    def test_one_visible_device_per_rank(self):
        """As under Slurm, every rank sees one device, as its first."""
        def run(ranks, device, *args):
            script = f'CUDA_SHIM_VISIBLE_DEVICE=$(({device})) exec "$0" "$@"'
            return harness.run(ranks, ["-c", script, harness.BINARY, *args], program="bash",
                               env={"CUDA_SHIM_DEVICES": "3"})

        own = "OMPI_COMM_WORLD_LOCAL_RANK"
        self.assert_devices(run(3, own, "doctor").stdout, [0, 1, 2], (1, 1, 1))
        self.assert_devices(run(3, f"{own} / 2", "doctor").stdout, [0, 0, 1], (1 / 2, 1 / 2, 1))
        result = run(2, own, *self.train_args("out.h5", "train.steps=1", NCCL))
        self.assert_done(result)
        self.assertIn("collectives: nccl\n", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
