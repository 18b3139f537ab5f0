"""How many inner steps between exchanges, by what the planner says the overlay carries."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import square

# Of an element on the wire, beside 4 of float32. int8 has a scale for every 256 (docs/compression.md).
_BYTES = {"none": 4.0, "bf16": 2.0, "fp16": 2.0, "int8": 1.0 + 4 / 256}


@dataclass(frozen=True)
class Advice:
    sync_every: int  # the fewest inner steps that reach the utilisation
    utilization: float  # with so many: the part of the time in which inner steps go on
    waited_seconds: float  # of the inner loop, in each sync_every steps
    exchange_seconds: float  # of all fragments, one after the other
    rate_bps: float  # of the planned all-reduce


def advise(
    scenario: square.Scenario | square.Topology | str | os.PathLike[str],
    parameters: int,
    step_seconds: float,
    *,
    members: str | Sequence[str] = "all",
    tenant: str = "diloco",
    utilization: float = 0.9,
    compression: str = "bf16",
    fragments: int = 1,
    fragment_sync_delay: int = 0,
) -> Advice:
    """The fewest inner steps of `step_seconds` between exchanges of so many parameters with which the inner
    loop runs for `utilization` of the time.

    The all-reduce of the members is planned beside all that the scenario has already, as the tenant's; a
    topology, or the name of its file, has nothing else. Latency, and members that wait for the slowest, are
    not in it: real runs reach less. Raises ValueError for numbers that cannot be, and the planner's errors.
    """
    if compression not in _BYTES:
        raise ValueError(f'compression: "{compression}" is none of {", ".join(_BYTES)}')
    if parameters < 1 or fragments < 1 or fragment_sync_delay < 0:
        raise ValueError("advise: at least 1 parameter, 1 fragment and no delay below 0")
    if not step_seconds > 0 or not 0 < utilization < 1:
        raise ValueError("advise: step_seconds is above 0, utilization between 0 and 1")
    size = math.ceil(parameters * _BYTES[compression])
    asked = _scenario(scenario)
    number = asked.add_collective(square.Collective(tenant, "all_reduce", members=members, size_bytes=size))
    planned = square.plan(asked, streams=False)
    rate = next(one for one in planned.collectives if one.id == number).lp_rate_bps
    exchange = 0.0 if math.isinf(rate) else 8.0 * size / rate
    waited = fragments * max(0.0, exchange / fragments - fragment_sync_delay * step_seconds)
    wanted = utilization / (1 - utilization) * waited / step_seconds
    steps = max(math.ceil(wanted - 1e-9), fragments, fragment_sync_delay + 1)
    trained = steps * step_seconds
    return Advice(steps, trained / (trained + waited), waited, exchange, rate)


def _scenario(given: square.Scenario | square.Topology | str | os.PathLike[str]) -> square.Scenario:
    """A copy."""
    if isinstance(given, square.Scenario):
        return given.copy()
    if isinstance(given, square.Topology):
        return square.Scenario(given)
    if str(given).endswith(".toml"):
        return square.Scenario.read(given)
    return square.Scenario(square.Topology.read(given))
