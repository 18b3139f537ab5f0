"""What training scripts do, small: each returns numbers that must not depend on the backend."""

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

STEPS = 3
FEATURES = 16


class Model(nn.Module):
    """Two layers and a normalisation; the same on every rank."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.first = nn.Linear(FEATURES, 4 * FEATURES)
        self.norm = nn.LayerNorm(4 * FEATURES)
        self.second = nn.Linear(4 * FEATURES, FEATURES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(self.norm(torch.relu(self.first(inputs))))
        return result


def batch(step: int, rank: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(8, FEATURES, generator=generator)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, share: int) -> None:
    """`share` says which part of each step's data this rank has."""
    for step in range(STEPS):
        optimizer.zero_grad()
        inputs = batch(step, share)
        ((model(inputs) - inputs) ** 2).mean().backward()
        optimizer.step()


def numbers(model: nn.Module) -> list[float]:
    """Of every parameter, put together from its shards: size and some of its values."""
    found: list[float] = []
    for parameter in model.parameters():
        whole = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
        flat = whole.detach().double().flatten()
        found += [flat.norm().item(), *flat[:5].tolist()]
    return found


def ddp(rank: int, size: int) -> list[float]:
    model = nn.parallel.DistributedDataParallel(Model())
    train(model, torch.optim.SGD(model.parameters(), 0.1), rank)
    return numbers(model)


def zero(rank: int, size: int) -> list[float]:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = nn.parallel.DistributedDataParallel(Model())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    train(model, optimizer, rank)
    return numbers(model)


def fsdp1(rank: int, size: int) -> list[float]:
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(Model(), device_id=torch.device("cpu"), use_orig_params=True)
    train(model, torch.optim.SGD(model.parameters(), 0.1), rank)
    with FullyShardedDataParallel.summon_full_params(model):
        return numbers(model)


def fsdp2(rank: int, size: int) -> list[float]:
    return numbers(_fully_sharded((size,), rank))


def hsdp(rank: int, size: int) -> list[float]:
    return numbers(_fully_sharded((2, size // 2), rank))


def _fully_sharded(shape: tuple[int, ...], rank: int) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    names = ("between", "within")[-len(shape) :]
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    model: nn.Module = Model()
    for layer in (model.first, model.second):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model, torch.optim.Adam(model.parameters(), 0.01), rank)
    return model


def dtensor(rank: int, size: int) -> list[float]:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(3)
    left = distribute_tensor(torch.randn(9, 12), mesh, [Shard(1)])
    right = distribute_tensor(torch.randn(12, 7), mesh, [Shard(0)])
    product = (left @ right).redistribute(mesh, [Replicate()])
    turned = left.redistribute(mesh, [Shard(0)]).redistribute(mesh, [Shard(1)])
    return [*product.to_local().flatten().tolist(), *turned.full_tensor().flatten().tolist()]


def tensor_parallel(rank: int, size: int) -> list[float]:
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cpu", (size,))
    model = Model()
    plan = {
        "first": ColwiseParallel(output_layouts=Shard(0)),
        "norm": SequenceParallel(sequence_dim=0),
        "second": RowwiseParallel(input_layouts=Shard(0), output_layouts=Replicate()),
    }
    parallelize_module(model, mesh, plan)
    train(model, torch.optim.SGD(model.parameters(), 0.1), 0)
    return numbers(model)


def checkpoint(rank: int, size: int) -> list[float]:
    from torch.distributed import checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

    folders: list[Any] = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folders)
    trained = _fully_sharded((size,), rank)
    dcp.save({"model": get_model_state_dict(trained)}, checkpoint_id=folders[0])
    restored = _fully_sharded((size,), rank + 100)
    state = {"model": get_model_state_dict(restored)}
    dcp.load(state, checkpoint_id=folders[0])
    set_model_state_dict(restored, state["model"])
    dist.barrier()
    if rank == 0:
        for path in Path(folders[0]).glob("*"):
            path.unlink()
        for path in Path(folders[0]).glob(".*"):
            path.unlink()
        Path(folders[0]).rmdir()
    assert numbers(restored) == numbers(trained)
    return numbers(restored)


ALL = [ddp, zero, fsdp1, fsdp2, hsdp, dtensor, tensor_parallel, checkpoint]


def run_all(rank: int, size: int) -> dict[str, list[float]]:
    return {workload.__name__: workload(rank, size) for workload in ALL}
