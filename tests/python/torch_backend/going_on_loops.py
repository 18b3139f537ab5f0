"""Training loops that go on where members are gone, until the file `over` is there."""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from square.diloco import DiLoCo
from square.torch import shrink
from torch import distributed as dist

FLOATS = 50_000
TIMEOUT_SECONDS = 60.0
# A member is stopped at most as late after all have taken a step, and then the others go on for a while.
LATEST_SECONDS = 2.0
AFTERWARDS_SECONDS = 4.0
PAUSE_SECONDS = 0.02

Loop = Callable[[int, Path, float], dict[str, Any]]


def agree(model: torch.Tensor, progress: torch.Tensor) -> None:
    """All take what the first has: some may have taken a step that others have not."""
    dist.broadcast(progress, 0)
    dist.broadcast(model, 0)


def is_over(folder: Path) -> bool:
    """At all ranks at the same step: what the first one sees."""
    over = torch.tensor(float(dist.get_rank() == 0 and (folder / "over").exists()))
    dist.all_reduce(over)
    return bool(over)


def say(rank: int, folder: Path) -> None:
    """That the rank has taken a step: once all have, one may be stopped."""
    if not (folder / f"pid-{rank}").exists():
        (folder / f"pid-{rank}.new").write_text(str(os.getpid()))
        (folder / f"pid-{rank}.new").rename(folder / f"pid-{rank}")


def outcome(model: torch.Tensor) -> dict[str, Any]:
    return {"model": hashlib.sha256(model.numpy().tobytes()).hexdigest(), "size": dist.get_world_size()}


def plain(rank: int, folder: Path, seconds: float) -> dict[str, Any]:
    model, progress = torch.zeros(FLOATS), torch.zeros(1)

    def step() -> None:
        change = torch.full((FLOATS,), float(rank + 1) * (1 + progress[0]))
        dist.all_reduce(change)
        model.add_(change / dist.get_world_size())
        progress.add_(1)

    def level() -> None:
        agree(model, progress)

    return step_by_step(step, level, lambda: model, rank, folder)


def ddp(rank: int, folder: Path, seconds: float) -> dict[str, Any]:
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
    progress = torch.zeros(1)
    wrapped: list[Any] = []

    def level() -> None:
        dist.broadcast(progress, 0)  # DDP itself takes the first one's parameters
        wrapped[:] = [torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)]

    def step() -> None:
        if not wrapped:
            level()
        model.zero_grad()
        inputs = torch.full((4, 64), float(rank + 1)) / (1 + progress)
        wrapped[0](inputs).square().mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad
        progress.add_(1)

    return step_by_step(step, level, lambda: flat_of(model), rank, folder)


def flat_of(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def step_by_step(
    step: Callable[[], None],
    level: Callable[[], None],
    model: Callable[[], torch.Tensor],
    rank: int,
    folder: Path,
) -> dict[str, Any]:
    """Shrinks, and makes the models alike, where a step has failed."""
    while True:
        try:
            step()
            say(rank, folder)
            if is_over(folder):
                return outcome(model())
        except RuntimeError as failure:
            try:
                shrink(timeout=timedelta(seconds=TIMEOUT_SECONDS))
                level()
            except RuntimeError as error:
                return {"error": str(error), "before": str(failure)}


def diloco(rank: int, folder: Path, seconds: float) -> dict[str, Any]:
    """It shrinks by itself. All take the same number of steps, which last until the end."""
    torch.manual_seed(7)
    model = torch.nn.Linear(64, 64)
    inner = torch.optim.SGD(model.parameters(), 0.01)
    try:
        with DiLoCo(model, inner, sync_every=4, timeout=timedelta(seconds=TIMEOUT_SECONDS)) as job:
            for step in range(int((LATEST_SECONDS + seconds + AFTERWARDS_SECONDS) / PAUSE_SECONDS)):
                inner.zero_grad()
                model(torch.full((4, 64), float(rank + 1) / (1 + step))).square().mean().backward()
                inner.step()
                time.sleep(PAUSE_SECONDS)
                if job.history:
                    say(rank, folder)
            job.sync()
            said = outcome(flat_of(model))
            return said | {"size": job.history[-1].members}
    except RuntimeError as error:
        return {"error": str(error)}


LOOPS: dict[str, Loop] = {"plain": plain, "ddp": ddp, "diloco": diloco}


def main(kind: str, folder: str, seconds: str) -> None:
    """A rank of torchrun's: puts into the folder what became of it."""
    dist.init_process_group("square", timeout=timedelta(seconds=TIMEOUT_SECONDS))
    rank = dist.get_rank()
    became = LOOPS[kind](rank, Path(folder), float(seconds))
    Path(folder, f"became-{rank}").write_text(json.dumps(became))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
