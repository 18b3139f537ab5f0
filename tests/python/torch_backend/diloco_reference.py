"""DiLoCo with all its members in one process, by the papers alone: what square.diloco must come to.

Douillard et al., arXiv:2311.08105, algorithm 1; fragments, delay and mixing: arXiv:2501.18512, algorithm 2.
"""

from typing import Any

import torch
from torch import nn
from workloads import Model
from workloads import batch as shared_batch


def batch(step: int, member: int) -> torch.Tensor:
    """Of each member another."""
    return shared_batch(step, member) + member


def tokens(member: int) -> int:
    """What a member says of each step: uneven."""
    return 100 * (member + 1)


def inner_of(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def train(model: nn.Module, inner: Any, step: int, member: int) -> None:
    inputs = batch(step, member)
    (model(inputs) - inputs.roll(1, dims=1)).square().mean().backward()
    inner.step()
    inner.zero_grad()


def run(
    members: int,
    steps: int,
    every: int,
    parts: list[list[str]],
    delay: int = 0,
    alpha: float = 0.0,
    lr: float = 0.7,
    momentum: float = 0.9,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Each member's parameters, and what all share, after so many steps. `parts`: names of each fragment."""
    models = [Model() for _ in range(members)]
    inners = [inner_of(model) for model in models]
    base = {name: value.detach().clone() for name, value in models[0].named_parameters()}
    velocity = {name: torch.zeros_like(value) for name, value in base.items()}
    under_way: dict[int, dict[str, Any]] = {}
    whole = sum(tokens(member) for member in range(members))
    for step in range(1, steps + 1):
        for member in range(members):
            train(models[member], inners[member], step - 1, member)
        for number, names in enumerate(parts):
            ends = [(number + 1) * every // len(parts) + k * every for k in range(steps)]
            if step + delay in ends:
                under_way[number] = {
                    name: sum(
                        (base[name] - models[m].get_parameter(name).detach()) * (tokens(m) / whole)
                        for m in range(members)
                    )
                    for name in names
                }
            if step in ends or step == steps:  # the last ones come early
                for name, change in under_way.pop(number, {}).items():
                    velocity[name] = momentum * velocity[name] + change
                    base[name] = base[name] - lr * (change + momentum * velocity[name])
                    for model in models:
                        own = model.get_parameter(name).detach()
                        own.copy_(alpha * own + (1 - alpha) * base[name])
    return [dict(model.named_parameters()) for model in models], base
