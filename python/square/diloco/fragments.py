"""Fragments: the parts of a model that are exchanged one at a time, and their memory."""

from collections.abc import Sequence
from typing import Any

import torch

Named = Sequence[tuple[str, Any]]


def local(parameter: Any) -> Any:
    """What this process has of it: of a DTensor its shard, without a copy."""
    data = parameter.detach()
    return data.to_local() if hasattr(data, "to_local") else data


def split(named: Named, fragments: int | str | Sequence[Any]) -> list[list[tuple[str, Any]]]:
    """The parameters of each fragment.

    So many contiguous runs of about as many elements: `P` or "balanced:P"; or a sequence of modules that have
    every parameter exactly once. Raises ValueError for what is neither.
    """
    if isinstance(fragments, str):
        kind, _, number = fragments.partition(":")
        if kind != "balanced" or not number.isdecimal():
            raise ValueError(f'fragments: "{fragments}" is neither a number nor "balanced:P"')
        fragments = int(number)
    if isinstance(fragments, int):
        if not 1 <= fragments <= len(named):
            raise ValueError(f"fragments: 1 to {len(named)} of so many parameters, not {fragments}")
        return _balanced(named, fragments)
    return _of_modules(named, fragments)


def _balanced(named: Named, count: int) -> list[list[tuple[str, Any]]]:
    """A parameter goes where its middle falls; every fragment has one at least."""
    whole = sum(parameter.numel() for _, parameter in named)
    made: list[list[tuple[str, Any]]] = [[]]
    before = 0
    for place, one in enumerate(named):
        middle = before + one[1].numel() / 2
        wanted = min(count - 1, int(middle * count / max(whole, 1)))
        must = count - len(made) >= len(named) - place
        if made[-1] and (must or wanted >= len(made)) and len(made) < count:
            made.append([])
        made[-1].append(one)
        before += one[1].numel()
    return made


def _of_modules(named: Named, modules: Sequence[Any]) -> list[list[tuple[str, Any]]]:
    if not modules:
        raise ValueError("fragments: there is no module")
    owner: dict[int, int] = {}
    names = {id(parameter): name for name, parameter in named}
    for number, module in enumerate(modules):
        for parameter in module.parameters():
            if id(parameter) in names and owner.setdefault(id(parameter), number) != number:
                raise ValueError(
                    f"fragments: {names[id(parameter)]} is in fragments {owner[id(parameter)]} and {number}: "
                    "put modules that share parameters into one"
                )
    left = [name for name, parameter in named if id(parameter) not in owner]
    if left:
        raise ValueError(f"fragments: {', '.join(left[:5])} {'is' if len(left) == 1 else 'are'} in none")
    made = [[one for one in named if owner[id(one[1])] == number] for number in range(len(modules))]
    if empty := [str(number) for number, part in enumerate(made) if not part]:
        raise ValueError(f"fragments: number {', '.join(empty)} has nothing that is trained")
    return made


class Fragment:
    """One fragment's parameters here, what all members have of it (`base`), and what changed (`change`).

    Base and change are float32 on `device`, as one piece and as views of each parameter's shape.
    """

    def __init__(self, named: Named, device: Any) -> None:
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        shards = [local(parameter) for parameter in self.parameters]
        size = sum(shard.numel() for shard in shards)
        self.base = torch.empty(size, dtype=torch.float32, device=device)
        self.change = torch.zeros(size, dtype=torch.float32, device=device)
        self.base_views = _views(self.base, shards)
        self.change_views = _views(self.change, shards)
        self.take_base()

    @torch.no_grad()
    def take_base(self) -> None:
        """The base becomes what the parameters are."""
        for base, parameter in zip(self.base_views, self.parameters, strict=True):
            base.copy_(local(parameter))

    @torch.no_grad()
    def measure(self, origin: Sequence[Any] | None = None) -> bool:
        """The change becomes base - local, or origin - local; whether it is finite. Of half precision the
        rounded base counts: what rounding does to it is no change."""
        views = zip(self.change_views, origin or self.base_views, self.parameters, strict=True)
        for change, base, parameter in views:
            shard = local(parameter)
            start = base if shard.dtype == torch.float32 else base.to(shard.dtype).float()
            torch.sub(start, shard.to(base.device, torch.float32), out=change)
        if bool(torch.isfinite(self.change.sum())) or bool(torch.isfinite(self.change).all()):
            return True
        self.change.zero_()
        return False

    def is_finite(self) -> bool:
        """The parameters, as they are now."""
        return all(bool(torch.isfinite(local(parameter)).all()) for parameter in self.parameters)

    @torch.no_grad()
    def adopt(self, alpha: float = 0.0) -> None:
        """The parameters become the base, or this part of what they are and the rest of it."""
        for base, parameter in zip(self.base_views, self.parameters, strict=True):
            shard = local(parameter)
            if alpha:
                shard.copy_(torch.lerp(base, shard.to(base.device, torch.float32), alpha))
            else:
                shard.copy_(base)


def _views(flat: Any, shards: Sequence[Any]) -> list[Any]:
    pieces = flat.split([shard.numel() for shard in shards])
    return [piece.view(shard.shape) for piece, shard in zip(pieces, shards, strict=True)]
