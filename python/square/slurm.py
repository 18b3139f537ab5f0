"""Runs a program of torch.distributed as a task of Slurm's ``srun``, as torchrun would run it.

    srun --ntasks-per-node 8 python -m square.slurm train.py --epochs 3

``init_process_group`` reads RANK, WORLD_SIZE, MASTER_ADDR and so on; ``srun`` says the same in words of its
own. What is set already stays.
"""

import os
import re
import runpy
import sys
from collections.abc import Mapping

from square.errors import InvalidArgumentError, NotFoundError

# Ports below are often taken, those above are the kernel's for outgoing connections.
FIRST_PORT = 20_000
PORTS = 10_000
MOST_HOSTS = 1 << 20


def environment(slurm: Mapping[str, str] = os.environ) -> dict[str, str]:
    """torchrun's variables for the task that ``srun`` has given these.

    Rank 0 runs on the first host of the step and meets the others there, at a port that follows from the
    job's and the step's number. Raises NotFoundError where this is no task of ``srun``, InvalidArgumentError
    for what Slurm never says.
    """

    def said(*names: str) -> str:
        found = next((slurm[name] for name in names if slurm.get(name)), None)
        if found is None:
            raise NotFoundError(f"{names[0]} is not set: start the program with srun")
        return found

    def number(*names: str) -> int:
        text = said(*names)
        if not text.isdecimal():
            raise InvalidArgumentError(f'{names[0]} is "{text}", not a number')
        return int(text)

    node = number("SLURM_NODEID")
    tasks = tasks_per_node(said("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"))
    if node >= len(tasks):
        raise InvalidArgumentError(f"SLURM_NODEID is {node}, and tasks are told for {len(tasks)} nodes")
    job, step = number("SLURM_JOB_ID"), number("SLURM_STEP_ID")
    return {
        "RANK": str(number("SLURM_PROCID")),
        "WORLD_SIZE": str(number("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
        "LOCAL_RANK": str(number("SLURM_LOCALID")),
        "LOCAL_WORLD_SIZE": str(tasks[node]),
        "GROUP_RANK": str(node),
        "MASTER_ADDR": first_host(said("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")),
        "MASTER_PORT": str(FIRST_PORT + (job * 31 + step) % PORTS),
    }


def first_host(hosts: str) -> str:
    """Of a list as Slurm writes it: "gpu[07-12,20],login" begins with gpu07."""
    match = re.match(r"([^\[\],]+)(?:\[(\w+)[\w,-]*\]([^\[\],]*))?(?:,|$)", hosts)
    if match is None:
        raise InvalidArgumentError(f'"{hosts[:100]}" is no list of hosts')
    return match[1] + (match[2] or "") + (match[3] or "")


def tasks_per_node(told: str) -> list[int]:
    """By node: "4(x2),3" are 4, 4 and 3."""
    counts: list[int] = []
    for part in told.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        times = int(match[2] or 1) if match else 0
        if match is None or len(counts) + times > MOST_HOSTS:
            raise InvalidArgumentError(f'"{told[:100]}" is no list of tasks by node')
        counts += [int(match[1])] * times
    return counts


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if len(sys.argv) > 1 else 2
    try:
        told = environment()
    except (NotFoundError, InvalidArgumentError) as error:
        print(f"square.slurm: {error}", file=sys.stderr)
        return 1
    os.environ.update({name: value for name, value in told.items() if name not in os.environ})
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))  # as for `python FILE`
    runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
