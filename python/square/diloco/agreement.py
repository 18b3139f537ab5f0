"""What all members must have in common, checked before they begin."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import distributed as dist

from square.diloco.fragments import Named, local
from square.diloco.rounds import Rounds


def check_choice(name: str, given: str, choices: tuple[str, ...]) -> None:
    if given not in choices:
        raise ValueError(f'{name}: "{given}" is none of {", ".join(choices)}')


def check_parameters(named: Named, inner: Any) -> None:
    """Raises ValueError where there is nothing to exchange, or what is there is no floating point or not what
    the inner optimizer trains: as where fully_shard came in between."""
    if not named:
        raise ValueError("diloco: the model has no parameter that requires a gradient")
    if len({name for name, _ in named}) < len(named):
        raise ValueError("diloco: two parameters have the same name")
    trained = {id(parameter) for one in inner.param_groups for parameter in one["params"]}
    for name, parameter in named:
        if id(parameter) not in trained:
            raise ValueError(
                f"diloco: the inner optimizer does not train {name} as it is now: make it of the model's "
                "parameters after fully_shard, call reshard() after a forward without backward, or freeze it"
            )
        if not parameter.dtype.is_floating_point:
            raise ValueError(f"diloco: {name} is {parameter.dtype}; only floating point is exchanged")


def check_same(group: Any, fragments: Sequence[Rounds], terms: dict[str, Any]) -> None:
    """Raises ValueError on all members, with the first difference from rank 0."""
    own: list[tuple[str, Any]] = [*terms.items(), ("fragments", len(fragments))]
    outer = fragments[0].optimizer
    options = {key: value for key, value in outer.param_groups[0].items() if key != "params"}
    own.append(("outer", f"{type(outer).__name__} {options}"))
    for rounds in fragments:
        part = rounds.fragment
        for name, parameter in zip(part.names, part.parameters, strict=True):
            shard = local(parameter)
            own.append((name, f"{tuple(shard.shape)} {shard.dtype} in fragment {rounds.number}"))
        own.append((f"rounds of fragment {rounds.number}", rounds.committed))
    said: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(said, own, group=group)
    for rank, other in enumerate(said):
        for (name, value), (other_name, other_value) in zip(said[0], other, strict=False):
            if (name, value) != (other_name, other_value):
                raise ValueError(
                    f"diloco: members differ: rank 0 has {name}: {value}, "
                    f"rank {rank} has {other_name}: {other_value}"
                )
        if len(other) != len(said[0]):
            raise ValueError(f"diloco: rank 0 has {len(said[0])} parameters, rank {rank} {len(other)}")


def start_alike(group: Any, fragments: Sequence[Rounds], *, has_base: bool) -> None:
    """Everybody takes the parameters of rank 0; where all have a base, that of rank 0, and keeps its own."""
    for rounds in fragments:
        if not has_base:
            rounds.fragment.take_base()
        dist.broadcast(rounds.fragment.base, group=group, group_src=0)
        if not has_base:
            rounds.fragment.adopt()


def forget(inner: Any, parameters: Sequence[Any]) -> None:
    """The inner optimizer's state of parameters that were not finite: its moments are not, either."""
    for parameter in parameters:
        held = inner.state.get(parameter, {})
        if any(torch.is_tensor(one) and not bool(torch.isfinite(local(one)).all()) for one in held.values()):
            inner.state.pop(parameter, None)
