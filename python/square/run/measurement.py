"""What the members reported under one policy, against what was planned."""

from square._core import Plan, Scenario
from square.errors import DataLossError
from square.run.network import Traffic
from square.run.operations import SUMS, gets, is_ring, results
from square.run.outcome import CollectiveOutcome, PolicyOutcome
from square.run.progress import Expectation
from square.run.protocol import Counted, Digest
from square.run.sums import digest_of_sum

Member = tuple[int, int]  # collective, rank

_SHOWN_MEMBERS = 5


class Measurement:
    """Collects finishes and digests until every member has given both."""

    def __init__(
        self, scenario: Scenario, plan: Plan, foreseen: Plan, seed: int = 1, policy: str | None = None
    ) -> None:
        """``plan`` is the controller's; of rings, which it knows by their parts only, ``foreseen`` is."""
        self._plan = plan
        self._assumed_bounds = {*plan.assumed_bounds, *foreseen.assumed_bounds}
        self._policy = policy or plan.policy  # as it is called
        self._seed = seed  # of what sums add
        self._collectives = {collective.id: collective for collective in scenario.collectives}
        known = {collective.id: collective for collective in plan.collectives}
        self._planned = {
            c.id: c if is_ring(self._collectives[c.id]) else known[c.id] for c in foreseen.collectives
        }
        self._all: set[Member] = {
            (collective.id, rank)
            for collective in self._collectives.values()
            for rank in range(len(collective.members))
        }
        # Contributors to a reduce have nothing to show.
        self._shown: set[Member] = {
            (id_, rank)
            for id_, rank in self._all
            if self._collectives[id_].op == "broadcast" or self._gets(id_, rank)
        }
        self._finishes: dict[Member, float] = {}
        self._digests: dict[Member, str] = {}
        self._counts: dict[str, Counted] = {}
        self.busy: float | None = None  # of this machine, while bytes moved; None: they moved elsewhere

    @property
    def total_bytes(self) -> int:
        """What all destinations together are to receive."""
        return sum(results(c.op, len(c.members)) * c.size_bytes for c in self._collectives.values())

    @property
    def is_finished(self) -> bool:
        return len(self._finishes) == len(self._all)

    @property
    def is_compared(self) -> bool:
        return len(self._digests) == len(self._shown)

    def expectations(self) -> list[Expectation]:
        return [
            Expectation(c.id, c.tenant, results(c.op, len(c.members)), self._planned[c.id].completion_seconds)
            for c in self._collectives.values()
        ]

    def take_finish(self, collective: int, rank: int, seconds: float) -> None:
        self._finishes[collective, rank] = seconds

    def take_digest(self, digest: Digest) -> None:
        self._digests[digest.collective, digest.rank] = digest.sha256

    def take_counts(self, node: str, counted: Counted) -> None:
        self._counts[node] = counted

    def destinations_done(self) -> dict[int, int]:
        done = dict.fromkeys(self._collectives, 0)
        for collective, rank in self._finishes:
            done[collective] += self._gets(collective, rank)
        return done

    def missing(self) -> str:
        """Which members have not done what is waited for."""
        if self.is_finished:
            left = sorted(self._shown - self._digests.keys())
        else:
            left = sorted(self._all - self._finishes.keys())
        names: dict[int, list[str]] = {}
        for collective, rank in left[:_SHOWN_MEMBERS]:
            names.setdefault(collective, []).append(self._collectives[collective].members[rank])
        parts = [f"collective {collective} at {', '.join(nodes)}" for collective, nodes in names.items()]
        if len(left) > _SHOWN_MEMBERS:
            parts.append(f"{len(left) - _SHOWN_MEMBERS} members more")
        return f"{'not verified' if self.is_finished else 'not finished'}: {'; '.join(parts)}"

    def outcome(self) -> PolicyOutcome:
        """The figures. Raises ``DataLossError`` if bytes differ."""
        return PolicyOutcome(
            policy=self._policy,
            epoch=self._plan.epoch,
            solve_seconds=self._plan.solve_seconds,
            collectives=tuple(self._outcome_of(collective) for collective in self._collectives),
            traffic=Traffic.of(self._counts) if self._counts else None,
            busy=self.busy,
            assumed_links=self._plan.assumed_links,
            assumed_bps=self._plan.assumed_capacity_bps,
        )

    def _root_rank(self, collective: int) -> int | None:
        spec = self._collectives[collective]
        return None if spec.root is None else spec.members.index(spec.root)

    def _gets(self, collective: int, rank: int) -> bool:
        return gets(self._collectives[collective].op, rank, self._root_rank(collective))

    def _expected(self, collective: int) -> tuple[str, str]:
        """The digest that all results have to have, and what it is of."""
        spec = self._collectives[collective]
        if spec.op in SUMS:
            sha256 = digest_of_sum(self._seed, collective, len(spec.members), spec.size_bytes)
            return sha256, "the sum of what the members gave"
        root_rank = self._root_rank(collective)
        assert root_rank is not None
        return self._digests[collective, root_rank], f"those at {spec.root}"

    def _outcome_of(self, collective: int) -> CollectiveOutcome:
        spec, planned = self._collectives[collective], self._planned[collective]
        expected, whose = self._expected(collective)
        for rank, name in enumerate(spec.members):
            if (collective, rank) not in self._shown:
                continue
            found = self._digests[collective, rank]
            if found != expected:
                raise DataLossError(
                    f"policy {self._policy}: collective {collective} (tenant {spec.tenant}): the bytes "
                    f"at {name} differ from {whose}: sha256 {found}, not {expected}"
                )
        return CollectiveOutcome(
            id=collective,
            tenant=spec.tenant,
            op=spec.op,
            root=spec.root,
            members=tuple(spec.members),
            weight=planned.weight,
            size_bytes=spec.size_bytes,
            planned_bps=planned.rate_bps,
            bound_bps=planned.bound_bps,
            planned_seconds=planned.completion_seconds,
            finished_seconds={name: self._finishes[collective, r] for r, name in enumerate(spec.members)},
            sha256=expected,
            is_bound_assumed=collective in self._assumed_bounds,
        )
