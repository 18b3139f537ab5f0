"""Where servers should be, by what the planner says of the overlay."""

import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from square import _core
from square.planning import plan

# Bytes of an element.
_PUSH_BYTES = {"bf16": 2, "float32": 4, "parameters": 4}
_PULL_BYTES = 4
_MOST_CHOICES = 2000


@dataclass(frozen=True)
class Placement:
    """Servers at these sites, and how long until all workers have pushed, and until all have pulled.

    ``score``: what Di-PS ranks one site by, the sum over workers of bandwidth times speed, in bits per
    second; None for several sites. It rewards one fat link, however thin the others are.
    """

    sites: tuple[str, ...]
    push_seconds: float
    pull_seconds: float
    score: float | None

    @property
    def seconds(self) -> float:
        return self.push_seconds + self.pull_seconds


def place(
    overlay: "_core.Topology | str | os.PathLike[str]",
    workers: Sequence[str],
    parameters: int,
    *,
    servers: int = 1,
    candidates: Sequence[str] | None = None,
    speeds: Mapping[str, float] | None = None,
    push: str = "bf16",
) -> list[Placement]:
    """Every choice of so many sites for servers of equal shares, the one that is done first at the front.

    All pushes are planned together, and all pulls: the time is that of the slowest. A worker at a server's
    own site needs none for its share. ``candidates``: the sites that may serve, all unless told.
    ``speeds``: of workers, for the paper's score. Raises ValueError for numbers that cannot be, and the
    planner's errors.
    """
    topology = overlay if isinstance(overlay, _core.Topology) else _core.Topology.read(os.fspath(overlay))
    names = [node.name for node in topology.nodes]
    sites = list(candidates) if candidates is not None else names
    if push not in _PUSH_BYTES:
        raise ValueError(f'push: "{push}" is none of {", ".join(_PUSH_BYTES)}')
    unknown = [name for name in (*workers, *sites) if name not in names]
    if unknown or not workers:
        raise ValueError(f"the overlay has no {', '.join(unknown)}" if unknown else "place: no workers")
    if parameters < 1 or not 1 <= servers <= len(sites):
        raise ValueError(f"place: at least 1 parameter, and 1 to {len(sites)} servers")
    if math.comb(len(sites), servers) > _MOST_CHOICES:
        raise ValueError(
            f"{math.comb(len(sites), servers)} choices of {servers} of {len(sites)} sites: at most "
            f"{_MOST_CHOICES} are planned; name fewer candidates"
        )
    found = []
    for choice in itertools.combinations(sites, servers):
        pushes = [(worker, site) for worker in workers for site in choice]
        share = math.ceil(parameters / servers)
        found.append(
            Placement(
                choice,
                _seconds(topology, pushes, share * _PUSH_BYTES[push]),
                _seconds(topology, [(site, worker) for worker, site in pushes], share * _PULL_BYTES),
                _score(topology, choice[0], workers, speeds or {}) if servers == 1 else None,
            )
        )
    return sorted(found, key=lambda one: one.seconds)


def _seconds(topology: "_core.Topology", transfers: Sequence[tuple[str, str]], size: int) -> float:
    apart = [(source, target) for source, target in transfers if source != target]
    if not apart:
        return 0.0
    asked = [
        _core.Collective("servers", root=source, members=[source, target], size_bytes=size)
        for source, target in apart
    ]
    scenario = _core.Scenario(topology, _core.Policy("exact"), collectives=asked)
    slowest = min(one.lp_rate_bps for one in plan(scenario, streams=False).collectives)
    return 0.0 if math.isinf(slowest) else 8.0 * size / slowest


def _score(
    topology: "_core.Topology", site: str, workers: Sequence[str], speeds: Mapping[str, float]
) -> float:
    """Di-PS, section 3.1: the sum of the links' bandwidths from the workers, times their speeds."""
    return sum(
        capacity * speeds.get(worker, 1.0)
        for worker, capacity in _links_to(topology, site)
        if worker in workers
    )


def _links_to(topology: "_core.Topology", site: str) -> Iterator[tuple[str, float]]:
    for link in topology.links:
        if link.to_node == site:
            yield link.from_node, math.inf if link.capacity_bps is None else link.capacity_bps
