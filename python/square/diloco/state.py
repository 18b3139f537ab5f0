"""State dicts: what all members share, by the names of parameters."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from square.diloco.fragments import local
from square.diloco.rounds import Rounds
from square.diloco.shares import Scale


def save(fragments: Sequence[Rounds]) -> dict[str, Any]:
    """Copies, by parameter: "base", "outer" (of the optimizer); by fragment: "rounds"."""
    saved: dict[str, Any] = {"base": {}, "outer": {}, "rounds": {}}
    for rounds in fragments:
        part = rounds.fragment
        for name, parameter, base in zip(part.names, part.parameters, part.base_views, strict=True):
            saved["base"][name] = _like(parameter, base)
            saved["outer"][name] = {
                key: _like(parameter, value) if _is_whole(value, base) else copy.deepcopy(value)
                for key, value in rounds.optimizer.state.get(base, {}).items()
            }
        kept = rounds.sums.residual(part.change)
        saved["rounds"][str(rounds.number)] = {
            "committed": rounds.committed,
            "steps_before": rounds.steps_before,
            "tokens_before": rounds.tokens_before,
            "group_tokens": rounds.group_tokens,
            "unit": rounds.scale.unit if rounds.scale else "",
            "usual": rounds.scale.usual if rounds.scale else 0.0,
            # Of a member that is ahead of what all share.
            "start": rounds.ahead.origin() if rounds.ahead is not None else torch.zeros(0),
            "residual": torch.frombuffer(bytearray(kept), dtype=torch.float32) if kept else torch.zeros(0),
        }
    return saved


def load(fragments: Sequence[Rounds], saved: dict[str, Any]) -> None:
    """Raises ValueError where names or sizes are another model's; then nothing is changed."""
    if "rounds" not in saved:
        raise ValueError('diloco: the state is of mode="decoupled", which keeps the model in snapshots')
    if len(saved["rounds"]) != len(fragments):
        raise ValueError(f"diloco: the state has {len(saved['rounds'])} fragments, not {len(fragments)}")
    for rounds in fragments:
        part = rounds.fragment
        kept = saved["rounds"][str(rounds.number)]["residual"].numel()
        if kept not in (0, part.change.numel()):
            raise ValueError(f"diloco: the state has {kept} elements of fragment {rounds.number}'s residual")
        ahead = saved["rounds"][str(rounds.number)]["start"].numel()
        if ahead not in (0, part.change.numel()):
            raise ValueError(
                f"diloco: the state has {ahead} elements of where fragment {rounds.number} began"
            )
        for name, base in zip(part.names, part.base_views, strict=True):
            there = saved["base"].get(name)
            if there is None or local(there).shape != base.shape:
                found = "nothing" if there is None else tuple(local(there).shape)
                raise ValueError(f"diloco: the state has {found} of {name}, which is {tuple(base.shape)}")
    for rounds in fragments:
        _load_one(rounds, saved)


def _load_one(rounds: Rounds, saved: dict[str, Any]) -> None:
    part = rounds.fragment
    for name, base in zip(part.names, part.base_views, strict=True):
        base.copy_(local(saved["base"][name]))
        rounds.optimizer.state[base] = {}
        for key, value in saved["outer"].get(name, {}).items():
            held = local(value).to(base.device).clone() if torch.is_tensor(value) else value
            rounds.optimizer.state[base][key] = held
    one = saved["rounds"][str(rounds.number)]
    rounds.committed = one["committed"]
    rounds.steps_before, rounds.tokens_before = one["steps_before"], one["tokens_before"]
    rounds.group_tokens = one["group_tokens"]
    rounds.scale = Scale(one["unit"], one["usual"]) if one["unit"] else None
    rounds.lose()
    if rounds.ahead is not None:
        rounds.ahead.begin_at_base()
        if one["start"].numel():
            rounds.ahead.start.copy_(one["start"])
    rounds.sums.set_residual(part.change, one["residual"].numpy().tobytes())


def _is_whole(value: Any, base: Any) -> bool:
    return bool(torch.is_tensor(value) and value.shape == base.shape)


def _like(parameter: Any, value: Any) -> Any:
    """A copy; of a DTensor's shard a DTensor, so that a checkpoint can be read by other meshes."""
    own = value.detach().clone()
    if not hasattr(parameter, "device_mesh"):
        return own
    made = type(parameter.data)
    return made.from_local(
        own.to(local(parameter).device),
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


@dataclass(frozen=True)
class Blank:
    """A tensor that comes by itself."""

    shape: tuple[int, ...]
    dtype: str


def clock(fragments: Sequence[Rounds]) -> list[dict[str, Any]]:
    """What all members share but for tensors: of each fragment how far it is, and its outer optimizer."""
    return [
        {
            "committed": rounds.committed,
            "group_tokens": rounds.group_tokens,
            "scale": rounds.scale,
            "groups": rounds.optimizer.state_dict()["param_groups"],
            "state": [
                {
                    key: Blank(tuple(value.shape), str(value.dtype)) if torch.is_tensor(value) else value
                    for key, value in rounds.optimizer.state.get(base, {}).items()
                }
                for base in rounds.fragment.base_views
            ],
        }
        for rounds in fragments
    ]


def shared(fragments: Sequence[Rounds]) -> list[Any]:
    """The tensors that belong to the clock."""
    tensors = []
    for rounds in fragments:
        tensors.append(rounds.fragment.base)
        for base in rounds.fragment.base_views:
            held = rounds.optimizer.state.get(base, {})
            tensors += [value for value in held.values() if torch.is_tensor(value)]
    return tensors


def take(fragments: Sequence[Rounds], told: Sequence[dict[str, Any]]) -> list[Any]:
    """Goes by the others' clock; the tensors that shared() has, to be written."""
    for rounds, one in zip(fragments, told, strict=True):
        rounds.committed, rounds.group_tokens, rounds.scale = (
            one["committed"],
            one["group_tokens"],
            one["scale"],
        )
        own = rounds.optimizer.state_dict()
        rounds.optimizer.load_state_dict({**own, "param_groups": one["groups"]})
        for base, held in zip(rounds.fragment.base_views, one["state"], strict=True):
            rounds.optimizer.state[base] = {
                key: _made(value, base.device) if isinstance(value, Blank) else value
                for key, value in held.items()
            }
    return shared(fragments)


def _made(blank: Blank, device: Any) -> Any:
    dtype = getattr(torch, blank.dtype.removeprefix("torch."))
    # Where an optimizer counts steps it does so on the CPU.
    return torch.zeros(blank.shape, dtype=dtype, device=device if blank.shape else "cpu")
