"""What the members reported under one policy, against what was planned."""

from square._core import Plan, Scenario
from square.errors import DataLossError
from square.run.outcome import CollectiveOutcome, PolicyOutcome
from square.run.progress import Expectation
from square.run.protocol import Digest

Member = tuple[int, int]  # collective, rank

_SHOWN_MEMBERS = 5


class Measurement:
    """Collects finishes and digests until every member has given both."""

    def __init__(self, scenario: Scenario, plan: Plan) -> None:
        self._plan = plan
        self._collectives = {collective.id: collective for collective in scenario.collectives}
        self._planned = {collective.id: collective for collective in plan.collectives}
        self._all: set[Member] = {
            (collective.id, rank)
            for collective in self._collectives.values()
            for rank in range(len(collective.members))
        }
        self._finishes: dict[Member, float] = {}
        self._digests: dict[Member, str] = {}

    @property
    def total_bytes(self) -> int:
        """What all destinations together are to receive."""
        return sum((len(c.members) - 1) * c.size_bytes for c in self._collectives.values())

    @property
    def is_finished(self) -> bool:
        return len(self._finishes) == len(self._all)

    @property
    def is_compared(self) -> bool:
        return len(self._digests) == len(self._all)

    def expectations(self) -> list[Expectation]:
        return [
            Expectation(c.id, c.tenant, len(c.members) - 1, self._planned[c.id].completion_seconds)
            for c in self._collectives.values()
        ]

    def take_finish(self, collective: int, rank: int, seconds: float) -> None:
        self._finishes[collective, rank] = seconds

    def take_digest(self, digest: Digest) -> None:
        self._digests[digest.collective, digest.rank] = digest.sha256

    def destinations_done(self) -> dict[int, int]:
        done = dict.fromkeys(self._collectives, 0)
        for collective, rank in self._finishes:
            done[collective] += rank != self._root_rank(collective)
        return done

    def missing(self) -> str:
        """Which members have not done what is waited for."""
        have = self._digests if self.is_finished else self._finishes
        left = sorted(self._all - have.keys())
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
            policy=self._plan.policy,
            epoch=self._plan.epoch,
            solve_seconds=self._plan.solve_seconds,
            collectives=tuple(self._outcome_of(collective) for collective in self._collectives),
        )

    def _root_rank(self, collective: int) -> int:
        spec = self._collectives[collective]
        assert spec.root is not None
        return spec.members.index(spec.root)

    def _outcome_of(self, collective: int) -> CollectiveOutcome:
        spec, planned = self._collectives[collective], self._planned[collective]
        source = self._digests[collective, self._root_rank(collective)]
        for rank, name in enumerate(spec.members):
            found = self._digests[collective, rank]
            if found != source:
                raise DataLossError(
                    f"policy {self._plan.policy}: collective {collective} (tenant {spec.tenant}): the bytes "
                    f"at {name} differ from those at {spec.root}: sha256 {found}, not {source}"
                )
        assert spec.root is not None
        return CollectiveOutcome(
            id=collective,
            tenant=spec.tenant,
            root=spec.root,
            members=tuple(spec.members),
            weight=planned.weight,
            size_bytes=spec.size_bytes,
            planned_bps=planned.rate_bps,
            bound_bps=planned.bound_bps,
            planned_seconds=planned.completion_seconds,
            finished_seconds={name: self._finishes[collective, r] for r, name in enumerate(spec.members)},
            sha256=source,
        )
