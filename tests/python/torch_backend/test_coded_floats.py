"""Tensors over a code of floats: float32 nearly as they were, all else bit by bit."""

from contextlib import ExitStack
from typing import Any

import ranks
import square
import torch
from square.cli import bundled
from square.planning import with_policy
from torch import distributed as dist

MEMBERS = ["source", "east", "west"]
ROUNDS = 20


def broadcast_both(rank: int, _size: int) -> list[Any]:
    chance = torch.Generator().manual_seed(5)
    floats = torch.rand(100_000, generator=chance)
    whole = torch.randint(2**62, (50_000,), generator=chance)
    # Its plan has a code soon; what comes before goes over trees.
    for _ in range(ROUNDS):
        data = floats.clone() if rank == 0 else torch.zeros_like(floats)
        dist.broadcast(data, 0)
    also = whole.clone() if rank == 0 else torch.zeros_like(whole)
    dist.broadcast(also, 0)
    return [torch.equal(data, floats), (data - floats).abs().max().item(), torch.equal(also, whole)]


def test_the_group_tells_what_its_tensors_are() -> None:
    topology = bundled.scenario("butterfly").topology
    scenario = with_policy(square.Scenario(topology, name="floats"), policy="exact", coding="float32")
    with ExitStack() as stack:
        controller = stack.enter_context(square.Controller(scenario))
        for relay in ("a", "b", "c", "d"):
            stack.enter_context(square.Node(relay, controller.address))
        names = [{"SQUARE_NODE": name} for name in MEMBERS]
        found = ranks.run(
            broadcast_both, 3, environment={"SQUARE_CONTROLLER": controller.address}, environments=names
        )
    assert [is_same for is_same, _, _ in found] == [True, False, False]
    assert all(error < 1e-6 for _, error, _ in found)
    assert all(is_exact for _, _, is_exact in found)
