"""Tasks of srun: what it says is read as torchrun would say it, and a job of two tasks trains."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from square import slurm
from square.errors import InvalidArgumentError, NotFoundError

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
# As srun of Slurm 23.02 sets them for the second of three tasks on the second of two nodes.
TASK = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_NODELIST": "gpu[07-09,12]",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_NTASKS": "6",
    "SLURM_STEP_TASKS_PER_NODE": "3(x2)",
    "SLURM_TASKS_PER_NODE": "3(x2)",
    "SLURM_PROCID": "4",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
}


def test_a_task_is_a_rank() -> None:
    told = slurm.environment(TASK)
    port = int(told.pop("MASTER_PORT"))
    assert slurm.FIRST_PORT <= port < slurm.FIRST_PORT + slurm.PORTS
    assert told == {
        "RANK": "4",
        "WORLD_SIZE": "6",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "3",
        "GROUP_RANK": "1",
        "MASTER_ADDR": "gpu07",
    }


def test_steps_of_a_job_meet_at_ports_of_their_own() -> None:
    ports = {slurm.environment(TASK | {"SLURM_STEP_ID": str(step)})["MASTER_PORT"] for step in range(20)}
    assert len(ports) == 20


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("n[1-3]", "n1"),
        ("n[001,003-004],m1", "n001"),
        ("rack[2-3]-a,x", "rack2-a"),
        ("a.example.org", "a.example.org"),
    ],
)
def test_the_first_host_of_a_list(hosts: str, first: str) -> None:
    assert slurm.first_host(hosts) == first


def test_mistakes_are_named() -> None:
    with pytest.raises(NotFoundError, match="srun"):
        slurm.environment({})
    with pytest.raises(InvalidArgumentError, match="SLURM_PROCID"):
        slurm.environment(TASK | {"SLURM_PROCID": "x"})
    for tasks in ("", "3(x", "3(x99999999)", "a"):
        with pytest.raises((InvalidArgumentError, NotFoundError)):
            slurm.environment(TASK | {"SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_TASKS_PER_NODE": tasks})
    for hosts in ("[1]", ",a", "n[1"):
        with pytest.raises(InvalidArgumentError, match="no list of hosts"):
            slurm.first_host(hosts)
    with pytest.raises(InvalidArgumentError, match="tasks are told for 2 nodes"):
        slurm.environment(TASK | {"SLURM_NODEID": "2"})


def task_of_two(rank: int) -> subprocess.Popen[str]:
    task = {
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_NODEID": "0",
    }
    command = [sys.executable, "-m", "square.slurm", str(EXAMPLES / "torch_ddp.py")]
    return subprocess.Popen(
        command, env=os.environ | task, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_two_tasks_train() -> None:
    tasks = [task_of_two(rank) for rank in range(2)]
    told = [task.communicate(timeout=120)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], told
    assert "step 100" in told[0]


def test_outside_of_slurm_it_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "square.slurm", "x.py"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "start the program with srun" in done.stderr
