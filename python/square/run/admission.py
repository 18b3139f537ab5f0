"""What `square run` refuses before it starts anything."""

import math
from collections.abc import Sequence
from pathlib import Path

from square._core import CollectiveView, Plan, Scenario
from square.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnimplementedError,
)
from square.run import operations, sums

MAX_NODES = 128  # a process each
MAX_SEATS = 4096  # a thread and a buffer each
# Of the memory that is free, for all members' buffers together.
MAX_MEMORY_SHARE = 0.8

_MEMORY_FILE = Path("/proc/meminfo")


def check(
    scenario: Scenario, policies: Sequence[str], input_file: Path | None = None, *, elsewhere: bool = False
) -> None:
    """Raises where the scenario cannot be run on this machine, or `elsewhere`, on others."""
    if elsewhere and input_file is not None:
        raise InvalidArgumentError("--input is a file of this machine, and --machines names others")
    nodes = scenario.topology.node_count
    if nodes > MAX_NODES:
        raise ResourceExhaustedError(
            f"scenario {scenario.name}: {nodes} nodes; `square run` starts a process for each and takes "
            f"at most {MAX_NODES}; `square plan` has no such limit"
        )
    if not scenario.collectives:
        raise InvalidArgumentError(
            f"scenario {scenario.name}: there is nothing to run: add a [[collective]] table"
        )
    for collective in scenario.collectives:
        _check_operation(collective, input_file)
    _check_rings(scenario, policies)
    seats = sum(len(collective.members) for collective in scenario.collectives)
    if seats > MAX_SEATS:
        raise ResourceExhaustedError(
            f"scenario {scenario.name}: its collectives have {seats} members together; "
            f"`square run` takes at most {MAX_SEATS}"
        )
    if elsewhere:
        return
    _check_memory(sum(operations.buffers(c.op, len(c.members)) * c.size_bytes for c in scenario.collectives))


def _check_operation(collective: CollectiveView, input_file: Path | None) -> None:
    name = f"collective {collective.id} ({collective.op}, tenant {collective.tenant})"
    if collective.op not in operations.OPERATIONS:
        raise UnimplementedError(
            f"{name}: `square run` runs {', '.join(operations.OPERATIONS)} only; "
            "`square plan` plans the others"
        )
    if collective.op not in operations.SUMS:
        return
    if input_file is not None:
        raise InvalidArgumentError(
            f"{name}: --input is for broadcasts; members of a sum add numbers made from --seed"
        )
    if collective.size_bytes % sums.ELEMENT_BYTES != 0:
        raise InvalidArgumentError(
            f"{name}: {collective.size_bytes} bytes are not a whole number of float32; make it a multiple of "
            f"{sums.ELEMENT_BYTES}"
        )


def _check_rings(scenario: Scenario, policies: Sequence[str]) -> None:
    """Members register a ring while they run, and what else they register depends on the policy."""
    rings = [collective.id for collective in scenario.collectives if operations.is_ring(collective)]
    if rings and len(policies) > 1:
        raise UnimplementedError(
            f"scenario {scenario.name}: collective {rings[0]} is a ring, and those run under one policy at a "
            "time: name it with --policy; `square plan` compares policies"
        )


def _check_memory(needed: int) -> None:
    free = free_memory_bytes()
    if free is not None and needed > MAX_MEMORY_SHARE * free:
        raise ResourceExhaustedError(
            f"the members' buffers need {needed / 1e9:.1f} GB together, and this machine has "
            f"{free / 1e9:.1f} GB free: send fewer bytes (--scale-bytes 0.1) or name fewer members"
        )


def free_memory_bytes() -> int | None:
    """None where the kernel does not say."""
    try:
        lines = _MEMORY_FILE.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def check_plan(plan: Plan) -> None:
    """Raises where a collective could never complete."""
    for collective in plan.collectives:
        if not math.isfinite(collective.completion_seconds):
            raise FailedPreconditionError(
                f"policy {plan.policy}: collective {collective.id} (tenant {collective.tenant}) gets no rate "
                "and would never complete; choose a fair policy, square for instance"
            )
