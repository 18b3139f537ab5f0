"""A group that goes on after a lost round: without who is gone, and with the same model everywhere."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

from square.diloco.rounds import Rounds
from square.torch.process_group import ProcessGroup
from square.torch.regrouping import shrink


def go_on(group: Any, fragments: Sequence[Rounds], alpha: float, timeout: timedelta | None) -> Any:
    """The group of those that are left, who all have committed the same rounds then.

    All members call it. A member can miss the answer that a round is committed, where another one dies at
    that moment: it takes the round from who has it. Raises RuntimeError where the group cannot go on; the
    model here stays as it is. Blocks for `timeout` for every member that dies meanwhile, at most.
    """
    if not isinstance(group, ProcessGroup):
        raise RuntimeError("diloco: only groups of the backend square go on after a member is lost")
    for left in reversed(range(group.size())):
        group = shrink(None if group is dist.group.WORLD else group, timeout)
        try:
            for rounds, (source, latest) in zip(fragments, _latest(group, fragments), strict=True):
                _level(group, rounds, source, latest, alpha)
            return group
        except RuntimeError:
            if not left:
                raise
    raise RuntimeError("diloco: nobody is left in the group")


def _latest(group: Any, fragments: Sequence[Rounds]) -> list[tuple[int, int]]:
    """For each fragment the first rank that has committed the most rounds, and how many; -1: all have."""
    own = torch.tensor([rounds.committed for rounds in fragments])
    parts = [torch.empty_like(own) for _ in range(group.size())]
    dist.all_gather(parts, own, group=group)
    committed = torch.stack(parts)
    most, least = committed.max(dim=0).values, committed.min(dim=0).values
    sources = torch.where(most == least, -1, committed.argmax(dim=0))
    return [(int(source), int(number)) for source, number in zip(sources, most, strict=True)]


def _level(group: Any, rounds: Rounds, source: int, latest: int, alpha: float) -> None:
    if source >= 0:
        is_behind = rounds.committed < latest
        # What is not needed here must not spoil what is here.
        base = rounds.fragment.base.clone() if is_behind else rounds.fragment.base
        said = [rounds.state() if group.rank() == source else None]
        dist.broadcast(base, group=group, group_src=source)
        dist.broadcast_object_list(said, group=group, group_src=source)
        if is_behind:
            rounds.fragment.base.copy_(base)
            rounds.catch_up(said[0] or {})
            rounds.fragment.adopt(alpha)
    rounds.lose()
