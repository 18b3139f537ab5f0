"""Tensors over a code of floats: float32 nearly as they were, all else bit by bit."""

import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ranks
import square
import torch
from square.cli import bundled
from square.planning import with_policy
from torch import distributed as dist

MEMBERS = ["source", "east", "west"]
ROUNDS = 10
SECONDS = 60.0


def broadcast_both(rank: int, _size: int, is_coded: str) -> list[Any]:
    chance = torch.Generator().manual_seed(5)
    floats = torch.rand(100_000, generator=chance)
    whole = torch.randint(2**62, (50_000,), generator=chance)
    dist.broadcast(torch.zeros(1), 0)  # has it planned
    deadline = time.monotonic() + SECONDS
    while not Path(is_coded).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    rounded, error = False, 0.0
    for _ in range(ROUNDS):
        data = floats.clone() if rank == 0 else torch.zeros_like(floats)
        dist.broadcast(data, 0)
        rounded = rounded or not torch.equal(data, floats)
        error = max(error, (data - floats).abs().max().item())
    also = whole.clone() if rank == 0 else torch.zeros_like(whole)
    dist.broadcast(also, 0)
    return [rounded, error, torch.equal(also, whole)]


def tell_when_coded(controller: square.Controller, file: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if any(session.codes for session in controller.plan().sessions):
            return file.touch()
        time.sleep(0.05)


def test_the_group_tells_what_its_tensors_are(tmp_path: Path) -> None:
    topology = bundled.scenario("butterfly").topology
    scenario = with_policy(square.Scenario(topology, name="floats"), policy="exact", coding="float32")
    with ExitStack() as stack:
        controller = stack.enter_context(square.Controller(scenario))
        for relay in ("a", "b", "c", "d"):
            stack.enter_context(square.Node(relay, controller.address))
        names = [{"SQUARE_NODE": name} for name in MEMBERS]
        watch = threading.Thread(target=tell_when_coded, args=(controller, tmp_path / "coded"))
        watch.start()
        found = ranks.run(
            broadcast_both,
            3,
            str(tmp_path / "coded"),
            environment={"SQUARE_CONTROLLER": controller.address},
            environments=names,
        )
        watch.join()
    assert [is_rounded for is_rounded, _, _ in found] == [False, True, True]
    assert all(error < 1e-6 for _, error, _ in found)
    assert all(is_exact for _, _, is_exact in found)
