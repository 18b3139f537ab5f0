"""State dicts: what all members share, by the names of parameters."""

import copy
import json
from collections.abc import Sequence
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


def clock(fragments: Sequence[Rounds]) -> list[dict[str, Any]]:
    """What all members share but for tensors, as JSON has it: of each fragment how far it is, and its outer
    optimizer. Raises ValueError for an optimizer that keeps something else."""
    return [
        {
            "committed": rounds.committed,
            "group_tokens": rounds.group_tokens,
            "scale": [rounds.scale.unit, rounds.scale.usual] if rounds.scale else None,
            "groups": [
                {
                    key: _plain(key, value.tolist() if torch.is_tensor(value) else value)
                    for key, value in one.items()
                }
                for one in rounds.optimizer.state_dict()["param_groups"]
            ],
            "state": [
                {key: _told(key, value) for key, value in rounds.optimizer.state.get(base, {}).items()}
                for base in rounds.fragment.base_views
            ],
        }
        for rounds in fragments
    ]


def _told(key: str, value: Any) -> dict[str, Any]:
    """A tensor comes by itself."""
    if torch.is_tensor(value):
        return {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    return {"value": _plain(key, value)}


def _option(key: str, value: Any) -> Any:
    return value.tolist() if torch.is_tensor(value) else _plain(key, value)


def _plain(key: str, value: Any) -> Any:
    try:
        json.dumps(value)
    except TypeError as error:
        raise ValueError(
            f"outer: its optimizer keeps {key} as {type(value).__name__}, which members cannot tell one "
            "another: it may keep tensors, numbers and texts"
        ) from error
    return value


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
        rounds.committed, rounds.group_tokens = one["committed"], one["group_tokens"]
        rounds.scale = Scale(*one["scale"]) if one["scale"] else None
        own = rounds.optimizer.state_dict()
        groups = [
            {key: _as(mine.get(key), value) for key, value in group.items()}
            for mine, group in zip(own["param_groups"], one["groups"], strict=True)
        ]
        rounds.optimizer.load_state_dict({**own, "param_groups": groups})
        for base, held in zip(rounds.fragment.base_views, one["state"], strict=True):
            rounds.optimizer.state[base] = {key: _made(value, base.device) for key, value in held.items()}
    return shared(fragments)


def _as(own: Any, value: Any) -> Any:
    """JSON has neither tensors nor tuples."""
    if torch.is_tensor(own):
        return torch.tensor(value, dtype=own.dtype, device=own.device)
    return tuple(value) if isinstance(own, tuple) else value


def _made(told: dict[str, Any], device: Any) -> Any:
    if "value" in told:
        return told["value"]
    dtype = getattr(torch, told["dtype"], None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"diloco: a member keeps tensors of {told['dtype']}, which torch has not here")
    # Where an optimizer counts steps it does so on the CPU.
    return torch.zeros(told["shape"], dtype=dtype, device=device if told["shape"] else "cpu")
