"""What all members must have in common, checked before they begin."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import distributed as dist

from square.diloco.fragments import Named, local
from square.diloco.rounds import Rounds

# Arguments of mode="decoupled" alone.
DECOUPLED = ("quorum", "grace", "servers", "snapshots")


def check_choice(name: str, given: str, choices: tuple[str, ...]) -> None:
    if given not in choices:
        raise ValueError(f'{name}: "{given}" is none of {", ".join(choices)}')


def check_choices(weight: str, on_lost_round: str, join: str) -> None:
    check_choice("weight", weight, ("tokens", "equal"))
    check_choice("on_lost_round", on_lost_round, ("carry", "raise"))
    check_choice("join", join, ("none", "peers"))


def check_numbers(sync_every: int, fragments: int, delay: int, alpha: float) -> None:
    if sync_every < fragments:
        raise ValueError(f"sync_every: at least 1 step a fragment, {fragments} in all, not {sync_every}")
    if not 0 <= delay < sync_every:
        raise ValueError(f"fragment_sync_delay: 0 to {sync_every - 1} steps, not {delay}")
    if not 0 <= alpha <= 1:
        raise ValueError(f"fragment_update_alpha: 0 to 1, not {alpha}")


def check_mode(mode: str, delay: int, alpha: float, decoupled: dict[str, Any]) -> None:
    """Of "sync" and "eager". `decoupled` has what else was given by name."""
    if mode == "decoupled":
        raise ValueError('mode: "decoupled" is of DiLoCo itself, and of no class that is made of it')
    check_choice("mode", mode, ("sync", "eager", "decoupled"))
    for name in decoupled:
        if name not in DECOUPLED:
            raise TypeError(f"DiLoCo has no argument {name}")
        raise ValueError(f'{name}: only mode="decoupled" has it, not "{mode}"')
    if mode == "eager" and (delay or alpha):
        raise ValueError(
            'mode: "eager" has every fragment under way until its next turn, and takes neither '
            "fragment_sync_delay nor fragment_update_alpha"
        )


def trained(model: Any, inner: Any) -> list[tuple[str, Any]]:
    """The parameters that are exchanged, by name, of a module or such pairs. Raises as check_parameters."""
    named = list(model.named_parameters() if hasattr(model, "named_parameters") else model)
    named = [(name, parameter) for name, parameter in named if parameter.requires_grad]
    check_parameters(named, inner)
    return named


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


def check_joiner(named: Named, group: Any, join: str) -> None:
    """Raises ValueError for who cannot join."""
    if join != "peers":
        raise ValueError('invitation: who joins passes join="peers", as the members did')
    if group is not None:
        raise ValueError("invitation: who joins has no group before: it becomes its default group")
    for name, parameter in named:
        if hasattr(parameter, "device_mesh"):
            raise ValueError(
                f"invitation: {name} is sharded, and its mesh needs a default group before: a "
                "site with FSDP2 cannot join yet; restart all members from a checkpoint"
            )


def describe(fragments: Sequence[Rounds], terms: dict[str, Any]) -> list[list[str]]:
    """What all members must have in common, as pairs of texts."""
    own: list[tuple[str, Any]] = [*terms.items(), ("fragments", len(fragments))]
    outer = fragments[0].optimizer
    options = {key: value for key, value in outer.param_groups[0].items() if key != "params"}
    own.append(("outer", f"{type(outer).__name__} {options}"))
    for rounds in fragments:
        part = rounds.fragment
        for name, parameter in zip(part.names, part.parameters, strict=True):
            shard = local(parameter)
            own.append((name, f"{tuple(shard.shape)} {shard.dtype} in fragment {rounds.number}"))
    return [[name, str(value)] for name, value in own]


def difference(first: Sequence[Any], other: Sequence[Any], whose: str, others: str) -> str:
    """The first one, in words; empty if there is none."""
    for (name, value), (other_name, other_value) in zip(first, other, strict=False):
        if (name, value) != (other_name, other_value):
            return f"members differ: {whose} has {name}: {value}, {others} has {other_name}: {other_value}"
    if len(other) != len(first):
        return f"{whose} has {len(first)} parameters, {others} {len(other)}"
    return ""


def check_same(group: Any, fragments: Sequence[Rounds], terms: dict[str, Any]) -> None:
    """Raises ValueError on all members, with the first difference from rank 0."""
    own = describe(fragments, terms)
    own += [[f"rounds of fragment {one.number}", str(one.committed)] for one in fragments]
    said = exchange(own, group, device_for(group, fragments[0].fragment.parameters[0]))
    for rank, other in enumerate(said):
        if found := difference(said[0], other, "rank 0", f"rank {rank}"):
            raise ValueError(f"diloco: {found}")


def together(group: Any, device: Any, do: Callable[[], Any]) -> list[Any]:
    """What `do` returned on all members, by rank, by way of JSON.

    Where it raises on one, that raises on its member, and RuntimeError with it on all others. All call it.
    Blocks for the group's timeout at most.
    """
    error = None
    own: dict[str, Any] = {}
    try:
        own["value"] = do()
    except Exception as raised:
        error = raised
        own = {"error": str(raised) or type(raised).__name__}
    said = exchange(own, group, device)
    if error is not None:
        raise error
    for rank, other in enumerate(said):
        if "error" in other:
            raise RuntimeError(f"diloco: rank {rank} cannot begin: {other['error']}")
    return [other["value"] for other in said]


def device_for(group: Any, parameter: Any) -> Any:
    """Where tensors are that the group's backend can exchange."""
    return parameter.device if dist.get_backend(group) == "nccl" else torch.device("cpu")


def exchange(own: Any, group: Any, device: Any = "cpu") -> list[Any]:
    """What all members say, by rank, as JSON. torch's own calls for objects unpickle what they are sent,
    which lets any member run code in all others. All call it. Blocks for the group's timeout at most."""
    text = torch.frombuffer(bytearray(json.dumps(own).encode("ascii")), dtype=torch.uint8)
    length = torch.tensor([text.numel()], device=device)
    lengths = [torch.zeros_like(length) for _ in range(dist.get_world_size(group))]
    dist.all_gather(lengths, length, group=group)
    padded = torch.zeros(int(max(lengths)), dtype=torch.uint8, device=device)
    padded[: text.numel()] = text
    texts = [torch.zeros_like(padded) for _ in lengths]
    dist.all_gather(texts, padded, group=group)
    pairs = zip(texts, lengths, strict=True)
    return [json.loads(said[: int(count)].cpu().numpy().tobytes()) for said, count in pairs]


def start_alike(group: Any, fragments: Sequence[Rounds], *, has_base: bool) -> None:
    """Everybody takes the parameters of rank 0; where all have a base, that of rank 0, and keeps its own."""
    for rounds in fragments:
        if not has_base:
            rounds.fragment.take_base()
        dist.broadcast(rounds.fragment.base, group=group, group_src=0)
        if not has_base:
            rounds.adopt()


def forget(inner: Any, parameters: Sequence[Any]) -> None:
    """The inner optimizer's state of parameters that were not finite: its moments are not, either."""
    for parameter in parameters:
        held = inner.state.get(parameter, {})
        if any(torch.is_tensor(one) and not bool(torch.isfinite(local(one)).all()) for one in held.values()):
            inner.state.pop(parameter, None)
