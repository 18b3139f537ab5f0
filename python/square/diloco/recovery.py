"""A group that goes on after a lost round: without who is gone, and with the same model everywhere."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

from square.diloco.rounds import Rounds
from square.torch.process_group import ProcessGroup
from square.torch.regrouping import shrink


def go_on(
    group: Any, fragments: Sequence[Rounds], begun: int, alpha: float, timeout: timedelta | None
) -> tuple[Any, int]:
    """The group of those that are left, who all have committed the same rounds then, and how many any of
    them has begun: what is under way is lost on all of them, also where one has not begun it yet.

    All members call it; `begun` counts this one's rounds of all fragments. A member can miss the answer that
    a round is committed, where another one dies at that moment: it takes the round from who has it. Raises
    RuntimeError where the group cannot go on; the model here stays as it is. Blocks for `timeout` for every
    member that dies meanwhile, at most.
    """
    if not isinstance(group, ProcessGroup):
        raise RuntimeError("diloco: only groups of the backend square go on after a member is lost")
    for left in reversed(range(group.size())):
        group = shrink(None if group is dist.group.WORLD else group, timeout)
        try:
            committed = _gathered(group, [begun] + [rounds.committed for rounds in fragments])
            most, least = committed.max(dim=0).values, committed.min(dim=0).values
            for place, rounds in enumerate(fragments, start=1):
                if most[place] > least[place]:
                    _level(group, rounds, int(committed[:, place].argmax()), int(most[place]), alpha)
                rounds.lose()
            return group, int(most[0])
        except RuntimeError:
            if not left:
                raise
    raise RuntimeError("diloco: nobody is left in the group")


def _gathered(group: Any, own: list[int]) -> Any:
    """A row of each member."""
    given = torch.tensor(own)
    parts = [torch.empty_like(given) for _ in range(group.size())]
    dist.all_gather(parts, given, group=group)
    return torch.stack(parts)


def _level(group: Any, rounds: Rounds, source: int, latest: int, alpha: float) -> None:
    is_behind = rounds.committed < latest
    # What is not needed here must not spoil what is here.
    base = rounds.fragment.base.clone()
    said = [rounds.state() if group.rank() == source else None]
    dist.broadcast(base, group=group, group_src=source)
    dist.broadcast_object_list(said, group=group, group_src=source)
    if is_behind:
        rounds.fragment.base.copy_(base)
        rounds.catch_up(said[0] or {})
        rounds.fragment.adopt(alpha if rounds.fragment.is_finite() else 0.0)
