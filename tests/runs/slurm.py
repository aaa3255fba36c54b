"""Shared by tests that submit jobs to the single-node Slurm of jobs/testbed."""

import os
import pathlib

import harness
from testbed import script, skip_without

STATE = pathlib.Path("/run/hidup-slurm")
JOB = 60  # seconds: enough for a job of the small deck, with Slurm's waiting


def daemons():
    """Returns {name: process id} of the daemons, and the identity of their process namespace."""
    (first,) = harness.children(int((STATE / "pid").read_text()))
    pids = {pathlib.Path(f"/proc/{pid}/comm").read_text().strip(): pid
            for pid in harness.children(first)}
    return pids, os.stat(f"/proc/{first}/ns/pid").st_ino


class SlurmTest(harness.RunTest):

    @classmethod
    def setUpClass(cls):
        skip_without("starting a Slurm",
                     ("munged", "slurmctld", "slurmd", "sbatch", "srun", "unshare", "flock"),
                     ("--pid", "--fork", "--mount-proc"))
        if (STATE / "ready").exists():
            raise AssertionError("somebody's Slurm is up; jobs/testbed/slurm-down.sh removes it")

    def setUp(self):
        super().setUp()
        self.addCleanup(script, "slurm-down.sh")
        self.script("slurm-up.sh")
        # The job's folder has a build, like the root of the repository.
        (self.folder / "build").mkdir()
        (self.folder / "build" / "hidup").symlink_to(harness.BINARY)
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith(harness.LAUNCHER_MARKS)}
        # The environment is a cluster user's, without jobs/environment.sh, but of root.
        self.environment.update(SLURM_CONF=str(STATE / "slurm.conf"), OMPI_ALLOW_RUN_AS_ROOT="1",
                                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def script(self, name):
        result = script(name)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
