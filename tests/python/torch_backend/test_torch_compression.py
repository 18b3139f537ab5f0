"""Compression of a group's all_reduce: which tensors, whose options count, training that converges."""

from typing import Any

import pytest
import ranks
import square
import torch
from square.torch.compression import LEAST_BYTES, MOST_RESIDUALS, Compressor
from square.torch.options import Options
from square.torch.reductions import Reduction
from torch import distributed as dist
from torch import nn

SIZE = 3
FEATURES = 160
STEPS = 150
NOISE = 0.1
LARGE = LEAST_BYTES // 4
# Of the loss without compression; top-k is behind by as many steps as an element waits to be sent.
MOST_TIMES = {"bf16": 1.001, "int8": 1.005, "int8:128:feedback": 1.005, "top-k:0.05": 1.15}
KINDS = list(MOST_TIMES)


def run(function: Any, compression: str, *arguments: Any) -> list[Any]:
    return ranks.run(function, SIZE, *arguments, environment={"SQUARE_COMPRESSION": compression})


def test_the_option_is_a_compression() -> None:
    environment = {"SQUARE_COMPRESSION": "top-k:0.02"}
    assert Options.resolve(None, environment).compression == "top-k:0.02"
    assert Options.resolve(Options(compression="int8"), environment).compression == "int8:256"
    given = square.Compression.top_k(0.03, feedback=False)
    assert Options.resolve(Options(compression=given), {}).compression == str(given)
    for text in ("zip", "int9"):
        with pytest.raises(ValueError, match=r"\(SQUARE_COMPRESSION\): .* use none, bf16, int8"):
            Options.resolve(None, {"SQUARE_COMPRESSION": text})
    with pytest.raises(ValueError, match="above 0, at most 1"):
        Options.resolve(Options(compression="top-k:7"), {})


def test_a_report_is_of_a_group_of_square() -> None:
    with pytest.raises(ValueError, match="no default group"):
        square.torch.compression_report()
    with pytest.raises(ValueError, match="no process group of the backend square"):
        square.torch.compression_report("gloo")


def test_it_applies_to_large_sums_of_float32() -> None:
    compressor = Compressor("int8")
    large = torch.zeros(LARGE)
    ops = dist.ReduceOp
    for tensor, operation, applies in [
        (large, ops.SUM, True),
        (large, ops.AVG, True),
        (large, ops.MAX, False),
        (large, dist._make_nccl_premul_sum(2.0), False),
        (large[1:], ops.SUM, False),
        (large.double(), ops.SUM, False),
        (large.bfloat16(), ops.SUM, False),
        (large.int(), ops.SUM, False),
    ]:
        assert compressor.applies_to(tensor, Reduction(operation, tensor.dtype, 2)) == applies
    assert not Compressor("none").applies_to(large, Reduction(ops.SUM, torch.float32, 2))


def test_residuals_are_bounded_in_number() -> None:
    compressor = Compressor("top-k")
    tensors = [torch.zeros(1) for _ in range(MOST_RESIDUALS + 1)]
    first = compressor.residual(tensors[0])
    assert compressor.residual(tensors[0]) is first
    for tensor in tensors:
        compressor.residual(tensor)
    assert len(compressor._residuals) == MOST_RESIDUALS
    assert compressor.residual(tensors[0]) is not first


def call_them_all(rank: int, size: int) -> list[Any]:
    """The results as bytes, the report after each step."""
    generator = torch.Generator().manual_seed(rank)
    large = torch.randn(LARGE, generator=generator)
    found: list[Any] = []
    for tensor, operation in [
        (large.clone(), dist.ReduceOp.SUM),
        (large.clone(), dist.ReduceOp.AVG),
        (large.clone(), dist.ReduceOp.MAX),
        (large.double(), dist.ReduceOp.SUM),
        (torch.full((10,), 1.001), dist.ReduceOp.SUM),
    ]:
        work = dist.all_reduce(tensor, operation, async_op=True)
        assert work is not None
        work.wait()
        report = square.torch.compression_report()
        found.append([tensor.double().sum().item(), report.calls, report.ratio, report.relative_error])
    wide = torch.randn(2 * LARGE, 2, generator=generator).t()  # not contiguous
    dist.all_reduce(wide)
    found.append([wide.double().sum().item(), square.torch.compression_report(dist.group.WORLD).calls, 0, 0])
    return found


def test_the_rest_goes_as_it_is() -> None:
    results = run(call_them_all, "int8")
    plain = run(call_them_all, "none")
    for rank in range(SIZE):
        assert [step[0] for step in results[rank]] == [step[0] for step in results[0]]
        assert [step[1] for step in results[rank]] == [1, 2, 2, 2, 2, 3]
        assert [step[1] for step in plain[rank]] == [0] * 6
        assert results[rank][0][2] == pytest.approx(3.93, rel=0.01)
        assert 0.001 < results[rank][0][3] < 0.02
        for step in (2, 3, 4):
            assert results[rank][step][0] == plain[rank][step][0]
        assert results[rank][0][0] != plain[rank][0][0]


def sum_of_one_tensor(rank: int, size: int) -> list[float]:
    tensor = torch.linspace(-1, 1, LARGE) * (rank + 1)
    dist.all_reduce(tensor)
    report = square.torch.compression_report()
    return [tensor.double().norm().item(), report.ratio]


def test_the_first_rank_decides_for_all() -> None:
    texts = ["int8:64", "none", "top-k:0.5"]
    results = ranks.run(
        sum_of_one_tensor, SIZE, environments=[{"SQUARE_COMPRESSION": text} for text in texts]
    )
    assert results[0] == results[1] == results[2]
    assert results[0][1] == pytest.approx(3.76, rel=0.01)


def train(rank: int, size: int, group: Any) -> list[float]:
    """The loss at the end, a digest of the weights, and what the report says."""
    torch.manual_seed(3)
    target = torch.randn(FEATURES, FEATURES) / FEATURES**0.5
    model = nn.parallel.DistributedDataParallel(
        nn.Linear(FEATURES, FEATURES, bias=False), process_group=group
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    generator = torch.Generator().manual_seed(100 + rank)

    def loss_of(samples: int) -> torch.Tensor:
        inputs = torch.randn(samples, FEATURES, generator=generator)
        wanted = inputs @ target + NOISE * torch.randn(samples, FEATURES, generator=generator)
        return ((model(inputs) - wanted) ** 2).mean()

    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(64).backward()
        optimizer.step()
    generator.manual_seed(7)
    weights = model.module.weight.detach().double()
    report = square.torch.compression_report(group)
    return [
        loss_of(1024).item(),
        weights.sum().item(),
        weights.norm().item(),
        report.calls,
        report.ratio,
        report.relative_error,
    ]


def train_by_all(rank: int, size: int) -> dict[str, list[float]]:
    """A group of its own for every kind, in one process: what one does is nothing to the others."""
    found = {}
    for kind in ["none", *KINDS]:
        group = dist.new_group(backend="square", pg_options=Options(compression=kind))
        found[kind] = train(rank, size, group)
    return found


@pytest.fixture(scope="module")
def trained() -> list[dict[str, list[float]]]:
    return ranks.run(train_by_all, SIZE)


@pytest.mark.parametrize("kind", KINDS)
def test_training_converges_as_it_does_without(trained: list[dict[str, list[float]]], kind: str) -> None:
    """To a loss that is mostly the noise of the data, which no training can learn."""
    plain, *_ = trained[0]["none"]
    loss, _, _, calls, ratio, error = trained[0][kind]
    print(f"{kind}: loss {loss:.4g} ({plain:.4g} without), ratio {ratio:.2f}, error {error:.3g}")
    assert all(of_rank[kind][:3] == trained[0][kind][:3] for of_rank in trained)
    assert calls == STEPS
    assert ratio > 1.9
    assert error > 0
    assert NOISE**2 < plain < 1.2 * NOISE**2
    assert loss < MOST_TIMES[kind] * plain
