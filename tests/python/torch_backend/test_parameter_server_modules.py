"""Workers around modules of torch."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import square.ps
import torch
from torch import nn


@pytest.fixture
def master(tmp_path: Path) -> Iterator[square.ps.Master]:
    with ExitStack() as stack:
        plain = square.ps.Nesterov(lr=1.0, momentum=0.0)
        running = stack.enter_context(
            square.ps.Master(outer=plain, clip=None, penalty=None, push="float32", grace=0.0)
        )
        stack.enter_context(square.ps.Server(running.address, tmp_path / "server"))
        yield running


class Tied(nn.Module):
    """A weight that is used twice, one that is frozen, and a buffer."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False, dtype=dtype)
        self.again = nn.Linear(4, 4, bias=False, dtype=dtype)
        self.again.weight = self.first.weight
        self.frozen = nn.Parameter(torch.ones(3, dtype=dtype), requires_grad=False)
        self.norm = nn.BatchNorm1d(4, dtype=dtype)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(self.again(self.first(data)))
        return result


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_loop_stays_as_it_was(master: square.ps.Master, dtype: torch.dtype) -> None:
    torch.manual_seed(7)
    model = Tied(dtype)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    alone = Tied(dtype)
    alone.load_state_dict(model.state_dict())
    its_inner = torch.optim.SGD(alone.parameters(), lr=0.1)
    data = torch.randn(10, 8, 4, dtype=dtype)
    with square.ps.Worker(model, inner, master=master.address, sync_every=5, timeout=30) as worker:
        for batch in data:
            inner.zero_grad()
            model(batch).square().mean().backward()
            worker.consumed(len(batch))
            inner.step()
        assert [sync.outcome for sync in worker.history] == ["adopted"] * 2
        assert worker.tokens == 80
    for batch in data:
        its_inner.zero_grad()
        alone(batch).square().mean().backward()
        its_inner.step()
    # A worker alone, with a step of 1 and no momentum, is where it would be without.
    expected = dict(alone.named_parameters())
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter, expected[name], atol=1e-6 if dtype == torch.float32 else 1e-2), name
    assert model.again.weight is model.first.weight


def test_a_joiner_begins_with_the_newest(master: square.ps.Master) -> None:
    first, second = nn.Linear(5, 3), nn.Linear(5, 3)
    with square.ps.Worker(first, master=master.address, timeout=30) as worker:
        with torch.no_grad():
            first.weight.sub_(1.0)
        worker.consumed(11)
        assert worker.sync().version == 2
        with square.ps.Worker(second, master=master.address, timeout=30) as joiner:
            assert (joiner.version, joiner.tokens) == (2, 11)
            assert torch.equal(first.weight, second.weight)


def test_what_cannot_be_pushed_is_named(master: square.ps.Master) -> None:
    frozen = nn.Linear(2, 2).requires_grad_(requires_grad=False)
    with pytest.raises(ValueError, match="no tensors that are trained"):
        square.ps.Worker(frozen, master=master.address)
    with pytest.raises(TypeError, match="a torch module or a dict"):
        square.ps.Worker([1, 2], master=master.address)
    with pytest.raises(ValueError, match="sync_every"):
        square.ps.Worker(nn.Linear(2, 2), master=master.address, sync_every=0)
