"""A group that goes on: without who is gone, with who joins, and with the same model everywhere."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

import square
from square.diloco import state
from square.diloco.agreement import exchange
from square.diloco.handover import Catalogue
from square.diloco.rounds import Rounds
from square.torch.process_group import ProcessGroup
from square.torch.regrouping import grow, shrink

_log = logging.getLogger("square.diloco")

# How many rounds a member has begun that has no model yet.
NOTHING = -1
# Who was told to join and does not come is waited for so long.
JOIN_LIMIT = timedelta(seconds=30)


@dataclass(frozen=True)
class Met:
    """What those of a new group have told one another."""

    begun: int  # rounds of all fragments, of who has begun most
    newcomers: list[int]  # ranks that have no model yet


def go_on(
    group: Any,
    fragments: Sequence[Rounds],
    begun: int,
    alpha: float,
    timeout: timedelta | None,
    joiners: int,
    hand_over: Callable[[Any, list[int]], None],
) -> tuple[Any, int]:
    """The group of those that are left and of so many that join, if they come, and how many rounds any of
    them has begun: those that have a model all have committed the same then, and what is under way is lost on
    all of them, also where one has not begun it yet. Newcomers get theirs from `hand_over(group, ranks)`.

    All members call it; `begun` counts this one's rounds of all fragments. A member can miss the answer that
    a round is committed, where another one dies at that moment: it takes the round from who has it. Raises
    RuntimeError where the group cannot go on; the model here stays as it is. Blocks for `timeout` for every
    member that dies meanwhile, at most.
    """
    if not isinstance(group, ProcessGroup):
        raise RuntimeError("diloco: only groups of the backend square go on after a member is lost")
    for left in reversed(range(group.size() + joiners)):
        try:
            group = _regrouped(group, joiners, timeout)
            found = meet(group, fragments, begun, alpha)
            if found.newcomers:
                hand_over(group, found.newcomers)
            return group, found.begun
        except RuntimeError:
            if not left:
                raise
        joiners = 0
    raise RuntimeError("diloco: nobody is left in the group")


def _regrouped(group: Any, joiners: int, timeout: timedelta | None) -> Any:
    own = None if group is dist.group.WORLD else group
    if joiners:
        try:
            return grow(joiners, own, min(timeout or JOIN_LIMIT, JOIN_LIMIT))
        except RuntimeError as error:
            _log.warning("nobody joins: %s", error)
    return shrink(own, timeout)


def meet(group: Any, fragments: Sequence[Rounds], begun: int, alpha: float) -> Met:
    """What all of a new group do first. Raises RuntimeError of a group that failed, and UnavailableError
    where nobody has a model."""
    own = [begun] + [NOTHING if begun == NOTHING else rounds.committed for rounds in fragments]
    said = _gathered(group, own)
    newcomers = [rank for rank, row in enumerate(said.tolist()) if row[0] == NOTHING]
    if len(newcomers) == group.size():
        raise square.errors.UnavailableError("diloco: nobody who has the model is left")
    there = said[said[:, 0] != NOTHING]
    most, least = there.max(dim=0).values, there.min(dim=0).values
    for place, rounds in enumerate(fragments, start=1):
        latest = int(most[place])
        if latest > least[place]:
            is_behind = NOTHING < own[place] < latest
            _level(group, rounds, int(said[:, place].argmax()), is_behind, alpha)
        rounds.lose()
    return Met(int(most[0]), newcomers)


def _gathered(group: Any, own: list[int]) -> Any:
    """A row of each member."""
    given = torch.tensor(own)
    parts = [torch.empty_like(given) for _ in range(group.size())]
    dist.all_gather(parts, given, group=group)
    return torch.stack(parts)


def _level(group: Any, rounds: Rounds, source: int, is_behind: bool, alpha: float) -> None:
    own = Catalogue(state.shared([rounds]))
    is_source = group.rank() == source
    clock, size = exchange([state.clock([rounds]), own.size] if is_source else [], group)[source]
    # What is not needed here must not spoil what is here.
    packed = torch.empty(size, dtype=torch.uint8)
    if is_source:
        own.read(0, packed)
    dist.broadcast(packed, group=group, group_src=source)
    if is_behind:
        rounds.catch_up()
        Catalogue(state.take([rounds], clock)).write(0, packed)
        if rounds.ahead is None:
            rounds.adopt(alpha if rounds.fragment.is_finite() else 0.0)
