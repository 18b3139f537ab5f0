"""What every member counts for in a round: an exchange of a few numbers beside the changes."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed as dist


@dataclass(frozen=True)
class Share:
    """What a member says of its part of a round."""

    fragment: int
    number: int
    tokens: int  # since the fragment's last round
    steps: int
    is_finite: bool


@dataclass(frozen=True)
class Scale:
    """What a change is multiplied by before it is added: all members know it before they know one another's
    shares of the round. Without it, sums of changes times tokens leave the range of half precision."""

    unit: str  # "tokens", "steps" or "equal"
    usual: float  # what a member had in the last round, on average

    def amount(self, share: Share) -> float:
        return {"tokens": share.tokens, "steps": share.steps, "equal": 1}[self.unit]

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
        said = [own.fragment, own.number, own.tokens, own.steps, float(own.is_finite)]
        given = torch.tensor(said, dtype=torch.float64, device=device)
        self._parts = [torch.empty_like(given) for _ in range(dist.get_world_size(group))]
        self._work = dist.all_gather(self._parts, given, group=group, async_op=True)
        self._shares: list[Share] = []

    def wait(self) -> list[Share]:
        """By rank, as often as asked. Raises RuntimeError of a group that failed, and ValueError where
        members are in different rounds."""
        if self._shares:
            return self._shares
        self._work.wait()
        for rank, part in enumerate(self._parts):
            fragment, number, tokens, steps, is_finite = (int(value) for value in part.tolist())
            if (fragment, number) != (self.own.fragment, self.own.number):
                raise ValueError(
                    f"diloco: rank {rank} is in round {number} of fragment {fragment}, this one in round "
                    f"{self.own.number} of fragment {self.own.fragment}: all members need the same "
                    "sync_every, fragments and fragment_sync_delay, and as many steps"
                )
            self._shares.append(Share(fragment, number, tokens, steps, bool(is_finite)))
        return self._shares
