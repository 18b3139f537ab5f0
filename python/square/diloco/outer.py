"""The outer optimizer: what makes a step of the average of what the members changed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

# Makes the optimizer of the parameters that all members share. Their gradients are averages of base - local.
Outer = Callable[[Iterable[Any]], Any]


@dataclass(frozen=True)
class Nesterov:
    """SGD with Nesterov momentum: the outer optimizer of DiLoCo and, with a momentum of 0.8, of Di-PS.

    Anything else that makes a torch optimizer of parameters will do in its place:
    ``outer=lambda parameters: torch.optim.SGD(parameters, lr=1.0)`` is the average of the members' models.
    """

    lr: float = 0.7
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if not self.lr > 0:
            raise ValueError(f"Nesterov: lr must be above 0, not {self.lr}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"Nesterov: momentum must be at least 0 and below 1, not {self.momentum}")

    def __call__(self, parameters: Iterable[Any]) -> Any:
        shared = list(parameters)
        made = torch.optim.SGD(shared, lr=self.lr, momentum=self.momentum, nesterov=self.momentum > 0)
        if self.momentum:
            for one in shared:  # there from the start: a checkpoint is read into what is there
                made.state[one]["momentum_buffer"] = torch.zeros_like(one)
        return made
