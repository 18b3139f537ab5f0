"""What every member counts for in a round: an exchange of a few numbers beside the changes."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed as dist

# The fragment of who has joined, and takes part in the others' next round, whichever that is.
ANY = -1


@dataclass(frozen=True)
class Turn:
    """When a member begins a round, and what it says to all along with it."""

    step: int  # the inner step after which it begins
    due: int  # that after which it ends
    begun: int  # rounds of all fragments, with this one
    waiting: int = 0  # processes that have asked this member to join
    more: bool = False  # another round follows at once


@dataclass(frozen=True)
class Share:
    """What a member says of its part of a round."""

    fragment: int
    number: int
    tokens: int  # since the fragment's last round
    steps: int
    is_finite: bool
    turn: Turn

    def numbers(self) -> list[int]:
        own = [self.fragment, self.number, self.tokens, self.steps, int(self.is_finite)]
        turn = self.turn
        return [*own, turn.step, turn.due, turn.begun, turn.waiting, int(turn.more)]

    @classmethod
    def of(cls, said: list[float]) -> "Share":
        """Raises ValueError for what no member counts."""
        numbers = [_whole(value) for value in said]
        fragment, number, tokens, steps, is_finite, step, due, begun, waiting, more = numbers
        turn = Turn(step, due, begun, waiting, bool(more))
        return cls(fragment, number, tokens, steps, bool(is_finite), turn)


def _whole(value: float) -> int:
    """Raises ValueError for what is no whole number from ANY on."""
    if not ANY <= value < math.inf or value != int(value):
        raise ValueError(f"{value} is no number of tokens, steps or rounds")
    return int(value)


def newcomer() -> Share:
    return Share(ANY, 0, 0, 0, True, Turn(0, 0, 0))


@dataclass(frozen=True)
class Scale:
    """What a change is multiplied by before it is added: all members know it before they know one another's
    shares of the round. Without it, sums of changes times tokens leave the range of half precision."""

    unit: str  # "tokens", "steps" or "equal"
    usual: float  # what a member had in the last round, on average

    def amount(self, share: Share) -> float:
        return {"tokens": share.tokens, "steps": share.steps, "equal": int(share.steps > 0)}[self.unit]

    def weight(self, share: Share) -> float:
        return self.amount(share) / self.usual if share.is_finite else 0.0

    def after(self, shares: list[Share]) -> "Scale":
        """For the next round. Steps count until somebody says tokens."""
        says_tokens = any(share.tokens for share in shares)
        unit = "tokens" if self.unit == "steps" and says_tokens else self.unit
        changed = Scale(unit, 1.0)
        whole = sum(changed.amount(share) for share in shares)
        return Scale(unit, whole / len(shares)) if whole else Scale(unit, self.usual)


def first_scale(shares: list[Share], weight: str) -> Scale:
    return Scale("equal" if weight == "equal" else "steps", 1.0).after(shares)


class Shares:
    """An exchange of shares that is under way."""

    def __init__(self, own: Share, group: Any, device: Any) -> None:
        self.own = own
        given = torch.tensor(own.numbers(), dtype=torch.float64, device=device)
        self._parts = [torch.empty_like(given) for _ in range(dist.get_world_size(group))]
        self._work = dist.all_gather(self._parts, given, group=group, async_op=True)
        self._shares: list[Share] = []

    def wait(self) -> list[Share]:
        """By rank, as often as asked. Raises RuntimeError of a group that failed and for a share that cannot
        be read, which lose the round, and ValueError where members are in different rounds."""
        if self._shares:
            return self._shares
        self._work.wait()
        said = [_read(rank, part.tolist()) for rank, part in enumerate(self._parts)]
        own = self.own
        for rank, one in enumerate(said):
            if ANY not in (own.fragment, one.fragment) and (one.fragment, one.number) != (
                own.fragment,
                own.number,
            ):
                raise ValueError(
                    f"diloco: rank {rank} is in round {one.number} of fragment {one.fragment}, this one in "
                    f"round {own.number} of fragment {own.fragment}: all members need the same sync_every, "
                    "fragments and fragment_sync_delay, and as many steps"
                )
        self._shares = said
        return said

    def leader(self) -> Share:
        """Of whoever knows which round it is. Raises RuntimeError where nobody does."""
        for share in self.wait():
            if share.fragment != ANY:
                return share
        raise RuntimeError("diloco: nobody who has been here before is left")


def _read(rank: int, said: list[float]) -> Share:
    try:
        return Share.of(said)
    except ValueError as error:
        raise RuntimeError(f"diloco: the share of rank {rank} cannot be read: {error}") from error
