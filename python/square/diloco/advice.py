"""How many inner steps between exchanges, by what the planner says the overlay carries."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import square
from square.diloco.fragments import Named, local, split

# A round takes so many times the latency of the longest link, whatever its size: shares, sum and vote, there
# and back.
TURNS = 6
MOST_FRAGMENTS = 64

# Of an element on the wire, beside 4 of float32. int8 has a scale for every 256 (docs/compression.md).
_BYTES = {"none": 4.0, "bf16": 2.0, "fp16": 2.0, "int8": 1.0 + 4 / 256}


@dataclass(frozen=True)
class Advice:
    sync_every: int  # the fewest inner steps that reach the utilisation
    utilization: float  # with so many: the part of the time in which inner steps go on
    waited_seconds: float  # of the inner loop, in each sync_every steps
    exchange_seconds: float  # of all fragments, one after the other
    rate_bps: float  # of the planned all-reduce


@dataclass(frozen=True)
class Links:
    """What fragments="plan" goes by: the overlay, and how long an inner step takes. Alike on all members."""

    scenario: square.Scenario | square.Topology | str | os.PathLike[str]
    step_seconds: float
    members: str | Sequence[str] = "all"
    tenant: str = "diloco"


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
    each = bytes_of_element(compression)
    if parameters < 1 or fragments < 1 or fragment_sync_delay < 0:
        raise ValueError("advise: at least 1 parameter, 1 fragment and no delay below 0")
    if not step_seconds > 0 or not 0 < utilization < 1:
        raise ValueError("advise: step_seconds is above 0, utilization between 0 and 1")
    size = math.ceil(parameters * each)
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


def parts_of(
    named: Named, fragments: Any, links: Links | None, sync_every: int, compression: str
) -> tuple[list[list[tuple[str, Any]]], int]:
    """The parameters of each fragment, and the delay that "plan" has chosen. Raises ValueError."""
    is_planned = isinstance(fragments, str) and fragments == "plan"
    if is_planned != (links is not None):
        raise ValueError('fragments: "plan" goes by `links`, and nothing else does')
    if links is not None:
        return plan_fragments(named, links, sync_every, compression)
    return split(named, fragments), 0


def plan_fragments(
    named: Named, links: Links, sync_every: int, compression: str
) -> tuple[list[list[tuple[str, Any]]], int]:
    """As many balanced fragments as each have exchanged, at the planned rate, within the inner steps from one
    to the next; and how many inner steps hide the longest exchange. One fragment where none do.

    Large and small ones take turns: a large one that takes longer than planned is followed by a small one.
    Raises as advise() does.
    """
    each = bytes_of_element(compression)
    asked = _scenario(links.scenario)
    whole = max(1, sum(local(parameter).numel() for _, parameter in named))
    rate = advise(asked, whole, links.step_seconds, members=links.members, tenant=links.tenant).rate_bps
    latency = TURNS * max((link.latency for link in asked.topology.links), default=0.0)

    def seconds(part: Named) -> float:
        elements: int = sum(local(parameter).numel() for _, parameter in part)
        return latency + 8.0 * each * elements / rate

    found, longest = [list(named)], seconds(named)
    for count in range(2, min(len(named), sync_every, MOST_FRAGMENTS) + 1):
        parts = split(named, count)
        slowest = max(map(seconds, parts))
        if slowest <= links.step_seconds * (sync_every // count):
            found, longest = parts, slowest
    found.sort(key=seconds)
    half = len(found) // 2
    small, large = found[:half], found[half:][::-1]
    mixed = [one for pair in zip_longest(large, small) for one in pair if one]
    delay = math.ceil(longest / links.step_seconds - 1e-9)
    return mixed, min(delay, sync_every - 1)


def bytes_of_element(compression: str) -> float:
    """On the wire. Raises ValueError for a compression that there is not."""
    kind, _, rest = compression.partition(":")
    if kind == "top-k":
        fraction: float = square.Compression.parse(f"{kind}:{rest}").fraction
        return 8 * fraction
    if kind not in _BYTES:
        raise ValueError(f'compression: "{compression}" is none of {", ".join(_BYTES)}, top-k')
    return _BYTES[kind]


def _scenario(given: square.Scenario | square.Topology | str | os.PathLike[str]) -> square.Scenario:
    """A copy."""
    if isinstance(given, square.Scenario):
        return given.copy()
    if isinstance(given, square.Topology):
        return square.Scenario(given)
    if str(given).endswith(".toml"):
        return square.Scenario.read(given)
    return square.Scenario(square.Topology.read(given))
