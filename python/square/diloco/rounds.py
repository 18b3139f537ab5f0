"""Rounds of one fragment: the exchange of what changed, and the outer step with its average."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed as dist

from square.diloco.ahead import Ahead
from square.diloco.fragments import Fragment
from square.diloco.outer import Outer
from square.diloco.shares import Scale, Share, Shares, Turn, first_scale
from square.diloco.sums import Sum, Sums


class LostRoundError(Exception):
    """It counts for nobody. `needs_regroup`: the group may have lost members. `is_empty`: nobody stepped."""

    def __init__(self, reason: str, *, needs_regroup: bool = True, is_empty: bool = False) -> None:
        super().__init__(reason)
        self.needs_regroup = needs_regroup
        self.is_empty = is_empty


@dataclass
class Flight:
    """A round that is under way."""

    due: int  # the inner step after which it ends
    scale: Scale
    shares: Shares
    sum: Sum


@dataclass(frozen=True)
class Outcome:
    """What a round came to."""

    shares: list[Share]
    weights: list[float]  # by rank
    norm: float


class Rounds:
    """One fragment, its outer optimizer, and how far it is. All members commit a round, or none."""

    def __init__(
        self, number: int, fragment: Fragment, outer: Outer, sums: Sums, weight: str, mode: str = "sync"
    ) -> None:
        self.number = number
        self.fragment = fragment
        self.optimizer = outer(fragment.base_views)
        self.sums = sums
        self.committed = 0
        self.scale: Scale | None = None
        self.group_tokens = 0  # of all members, in rounds that were committed
        # Of this member, when the last round that was committed began.
        self.steps_before = 0
        self.tokens_before = 0
        self.flight: Flight | None = None
        self._weight = weight
        self._part = 0.0  # this member's, of the last average
        self.ahead = Ahead(fragment, outer) if mode == "eager" else None

    def begin(self, group: Any, turn: Turn, tokens: int) -> None:
        """Raises RuntimeError of a group that failed. Blocks in a fragment's first round only."""
        is_finite = (self.ahead or self.fragment).measure()
        since = (tokens - self.tokens_before, turn.step - self.steps_before)
        own = Share(self.number, self.committed + 1, *since, is_finite, turn)
        shares = Shares(own, group, self.fragment.change.device)
        scale = self.scale or first_scale(shares.wait(), self._weight)
        weight = scale.weight(own)
        self.fragment.change.mul_(weight)
        self.flight = Flight(turn.due, scale, shares, self.sums.begin(self.fragment.change, group, weight))
        if self.ahead is not None:
            # As in the last round: how much the others have done in this one is not known yet.
            self.ahead.go((self._part or weight / dist.get_world_size(group)) if weight else 0.0)

    def adopt(self, alpha: float = 0.0) -> None:
        """The parameters become what all share, or this part of what they are and the rest of it."""
        self.fragment.adopt(alpha)
        if self.ahead is not None:
            self.ahead.begin_at_base()

    def restore(self) -> None:
        """Parameters that are not finite become what they were."""
        (self.ahead.restore if self.ahead is not None else self.fragment.adopt)()

    def follow(self, group: Any, shares: Shares) -> None:
        """Begins the round that the others are in, in which this member has changed nothing."""
        leader = shares.leader()
        if leader.number != self.committed + 1:
            raise ValueError(
                f"diloco: the others are in round {leader.number} of fragment {self.number}, "
                f"and this one has {self.committed}"
            )
        self.fragment.change.zero_()
        scale = self.scale or first_scale(shares.wait(), self._weight)
        self.flight = Flight(
            leader.turn.due, scale, shares, self.sums.begin(self.fragment.change, group, 0.0)
        )

    def finish(self, group: Any) -> Outcome:
        """Waits for the round, and steps if all members can. After a LostRoundError nothing has changed."""
        flight = self.flight
        assert flight is not None
        failure = ""
        try:
            flight.shares.wait()
            flight.sum.wait()
        except RuntimeError as error:
            failure = str(error) or type(error).__name__
        if not _agree(not failure, group, self.fragment.change.device):
            raise LostRoundError(failure or "another member has not got it")
        shares = flight.shares.wait()
        weights = [flight.scale.weight(share) for share in shares]
        whole = sum(weights)
        if not any(share.steps for share in shares):
            raise LostRoundError("nobody made a step", needs_regroup=False, is_empty=True)
        if whole == 0 and all(share.is_finite for share in shares):
            raise LostRoundError("nobody consumed a token", needs_regroup=False)
        # All members have the same bits, and so the same answer.
        if not bool(torch.isfinite(self.fragment.change).all()):
            reason = "the sum of all changes is not finite: float16 ends at 65,504, and bfloat16 does not"
            raise LostRoundError(reason, needs_regroup=False)
        norm = self._step(whole) if whole else 0.0
        tokens = self.group_tokens + sum(share.tokens for share in shares)
        self._count(flight.scale.after(shares), tokens)
        parts = [weight / whole if whole else 0.0 for weight in weights]
        self._part = parts[dist.get_rank(group)]
        return Outcome(shares, parts, norm)

    def start_at(self, step: int, tokens: int) -> None:
        """What this member has done counts from here."""
        self.steps_before, self.tokens_before = step, tokens

    def lose(self) -> None:
        """What is under way is dropped, if there is anything; what changed comes with the next round."""
        if self.flight is not None:
            self.sums.take_back(self.fragment.change)
            self.flight = None

    def catch_up(self) -> None:
        """The others have committed the round that is under way here. state.take() brings the rest."""
        self._count(self.scale, self.group_tokens)

    def _count(self, scale: Scale | None, group_tokens: int) -> None:
        if self.flight is not None:
            self.steps_before += self.flight.shares.own.steps
            self.tokens_before += self.flight.shares.own.tokens
            if self.ahead is not None and self.flight.shares.own.is_finite:
                self.ahead.commit()
        self.committed += 1
        self.group_tokens = group_tokens
        self.scale = scale
        self.flight = None

    @torch.no_grad()
    def _step(self, whole: float) -> float:
        self.fragment.change.div_(whole)
        views = zip(self.fragment.base_views, self.fragment.change_views, strict=True)
        for base, change in views:
            base.grad = change
        norm = float(torch.linalg.vector_norm(self.fragment.change))  # optimizers may write into gradients
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm


def _agree(is_well: bool, group: Any, device: Any) -> bool:
    """Whether all members are; not of a group that failed."""
    answer = torch.tensor([int(is_well)], device=device)
    try:
        dist.all_reduce(answer, op=dist.ReduceOp.MIN, group=group)
    except RuntimeError:
        return False
    return bool(answer.item())
