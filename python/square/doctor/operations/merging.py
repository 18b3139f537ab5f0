"""Records of all ranks side by side."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from square.doctor.operations import explanation
from square.doctor.operations.records import Operation, Record


@dataclass(frozen=True)
class Group:
    """One group with the newest record of each rank that has one."""

    name: str
    number: int
    nodes: tuple[str, ...]
    records: dict[int, Record]

    @property
    def known(self) -> dict[int, Record]:
        """Those that say what their rank called."""
        return {rank: record for rank, record in self.records.items() if not record.is_blank}

    @property
    def written(self) -> float:
        """When the newest record was."""
        return max(record.written for record in self.records.values())

    @cached_property
    def calls(self) -> dict[int, dict[int, Operation]]:
        """By number of the call and rank, as far as records reach back."""
        calls: dict[int, dict[int, Operation]] = {}
        for rank, record in self.known.items():
            for operation in record.operations:
                if operation.call is not None:
                    calls.setdefault(operation.call, {})[rank] = operation
        return dict(sorted(calls.items()))

    @cached_property
    def last_called(self) -> dict[int, int]:
        return {rank: record.last_called for rank, record in self.known.items()}

    @cached_property
    def explanations(self) -> list[str]:
        """What keeps the group from going on, a line each; empty where nothing does."""
        return explanation.explain(self)

    def to_document(self) -> dict[str, Any]:
        return {
            "group": self.name,
            "number": self.number,
            "size": len(self.nodes),
            "explanations": self.explanations,
            "ranks": [
                {
                    "rank": rank,
                    "node": node,
                    "process": (record.life if (record := self.records.get(rank)) else None),
                    "pid": record.process.pid if record else None,
                    "last_enqueued_collective": self.last_called.get(rank),
                }
                for rank, node in enumerate(self.nodes)
            ],
            "calls": [
                {
                    "collective_seq_id": call,
                    "ranks": {
                        str(rank): {
                            "operation": one.name,
                            "size_bytes": one.size_bytes,
                            "peer": one.peer,
                            "state": one.state,
                            "called": one.called,
                            "first_byte": one.first_byte,
                            "last_byte": one.last_byte,
                            "completed": one.completed,
                            "waits_for": one.waits_for,
                            "outcome": one.outcome,
                        }
                        for rank, one in sorted(by_rank.items())
                    },
                }
                for call, by_rank in self.calls.items()
            ],
        }


def merge(records: Iterable[Record]) -> list[Group]:
    """By group, the newest record of each rank; the group that was heard of last comes last."""
    groups: dict[tuple[str, int, tuple[str, ...]], dict[int, Record]] = {}
    for record in records:
        by_rank = groups.setdefault((record.group, record.number, record.nodes), {})
        known = by_rank.get(record.rank)
        if known is None or known.written < record.written:
            by_rank[record.rank] = record
    merged = [Group(*key, dict(sorted(by_rank.items()))) for key, by_rank in groups.items()]
    return sorted(merged, key=lambda group: group.written)
