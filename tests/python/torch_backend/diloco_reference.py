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
    starts: dict[int, int] | None = None,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Each member's parameters, and what all share, after so many steps. `parts`: names of each fragment.
    `starts`: after so many steps a member that joins later has the others' model, and trains."""
    starts = starts or {}
    models = [Model() for _ in range(members)]
    inners = [inner_of(model) for model in models]
    base = {name: value.detach().clone() for name, value in models[0].named_parameters()}
    velocity = {name: torch.zeros_like(value) for name, value in base.items()}
    under_way: dict[int, dict[str, Any]] = {}
    consumed = [[0] * members for _ in parts]  # since the fragment's last round
    for step in range(1, steps + 1):
        for member in range(members):
            if step > starts.get(member, 0):
                train(models[member], inners[member], step - 1, member)
                for counts in consumed:
                    counts[member] += tokens(member)
        for number, names in enumerate(parts):
            ends = [(number + 1) * every // len(parts) + k * every for k in range(steps)]
            if step + delay in ends:
                counts, consumed[number] = consumed[number], [0] * members
                whole = sum(counts)
                under_way[number] = {
                    name: sum(
                        (base[name] - models[m].get_parameter(name).detach()) * (counts[m] / whole)
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
        for member, start in starts.items():
            if step == start:
                for name, value in base.items():
                    models[member].get_parameter(name).detach().copy_(value)
    return [dict(model.named_parameters()) for model in models], base


def run_eager(
    members: int, steps: int, every: int, parts: list[list[str]], lr: float = 0.7, momentum: float = 0.9
) -> list[dict[str, Any]]:
    """Each member's parameters, with the eager updates of arXiv:2502.12996 word for word: every member has
    outer parameters and momentum of its own, and steps by the average of the round before, in which its own
    part is replaced by the fresh one."""
    models = [Model() for _ in range(members)]
    inners = [inner_of(model) for model in models]
    shares = [tokens(m) / sum(tokens(k) for k in range(members)) for m in range(members)]
    outer = [{name: value.detach().clone() for name, value in m.named_parameters()} for m in models]
    velocity = [{name: torch.zeros_like(value) for name, value in one.items()} for one in outer]
    before: dict[str, list[torch.Tensor]] = {}
    for step in range(1, steps + 1):
        for member in range(members):
            train(models[member], inners[member], step - 1, member)
        for number, names in enumerate(parts):
            first = (number + 1) * every // len(parts) % every
            if step % every != first:
                continue
            for name in names:
                fresh = [
                    shares[m] * (outer[m][name] - models[m].get_parameter(name).detach())
                    for m in range(members)
                ]
                last = before.get(name, [torch.zeros_like(one) for one in fresh])
                for m in range(members):
                    gradient = sum(last) - last[m] + fresh[m]
                    velocity[m][name] = momentum * velocity[m][name] + gradient
                    outer[m][name] = outer[m][name] - lr * (gradient + momentum * velocity[m][name])
                    models[m].get_parameter(name).detach().copy_(outer[m][name])
                before[name] = fresh
    return [dict(model.named_parameters()) for model in models]
