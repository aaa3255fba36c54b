"""What tests of jobs share that are submitted to the single-node Slurm of jobs/testbed."""

import os
import pathlib

import harness
from testbed import script, skip_without

STATE = pathlib.Path("/run/hidup-slurm")
JOB = 60  # seconds: a job of the small deck is done, Slurm's waiting included


def daemons():
    """{name: process id} of the daemons, and what tells their process namespace from others."""
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
        # Where the job starts there is a build, as in the root of the repository.
        (self.folder / "build").mkdir()
        (self.folder / "build" / "hidup").symlink_to(harness.BINARY)
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith(harness.LAUNCHER_MARKS)}
        # As somebody on a cluster, who does not source jobs/environment.sh; but as root.
        self.environment.update(SLURM_CONF=str(STATE / "slurm.conf"), OMPI_ALLOW_RUN_AS_ROOT="1",
                                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def script(self, name):
        result = script(name)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
