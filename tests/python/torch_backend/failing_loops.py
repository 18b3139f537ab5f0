"""Training loops of every kind, which go on until an operation fails: each yields after every step."""

import tempfile
from collections.abc import Iterator
from typing import Any

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from workloads import FEATURES, Model, batch

Loop = Iterator[None]
MICRO_BATCHES = 4


def train(model: nn.Module, optimizer: torch.optim.Optimizer, share: int) -> Loop:
    step = 0
    while True:
        optimizer.zero_grad()
        inputs = batch(step, share)
        ((model(inputs) - inputs) ** 2).mean().backward()
        optimizer.step()
        step += 1
        yield


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), 0.01)


def ddp(rank: int, size: int) -> Loop:
    # Several buckets, so that a pass has several operations.
    model = nn.parallel.DistributedDataParallel(Model(), bucket_cap_mb=0.002)
    yield from train(model, _sgd(model), rank)


def _hooked(rank: int, state: Any, hook: Any) -> Loop:
    model = nn.parallel.DistributedDataParallel(Model())
    model.register_comm_hook(state, hook)
    yield from train(model, _sgd(model), rank)


def ddp_allreduce_hook(rank: int, size: int) -> Loop:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    yield from _hooked(rank, None, default_hooks.allreduce_hook)


def ddp_fp16_hook(rank: int, size: int) -> Loop:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    yield from _hooked(rank, None, default_hooks.fp16_compress_hook)


def ddp_quantization_hook(rank: int, size: int) -> Loop:
    from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks

    yield from _hooked(rank, None, quantization_hooks.quantization_pertensor_hook)


def ddp_power_sgd_hook(rank: int, size: int) -> Loop:
    """Its callbacks start further operations, and wait for them."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=0.5)
    yield from _hooked(rank, state, powerSGD_hook.powerSGD_hook)


def post_local_sgd(rank: int, size: int) -> Loop:
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    model = nn.parallel.DistributedDataParallel(Model())
    nearby, _ = dist.new_subgroups(group_size=2)
    state = post_localSGD_hook.PostLocalSGDState(None, nearby, start_localSGD_iter=4)
    model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    averager = PeriodicModelAverager(period=2, warmup_steps=4)
    yield from train(model, PostLocalSGDOptimizer(_sgd(model), averager), rank)


def zero(rank: int, size: int) -> Loop:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = nn.parallel.DistributedDataParallel(Model())
    yield from train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.01), rank)


def fsdp1(rank: int, size: int) -> Loop:
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(Model(), device_id=torch.device("cpu"), use_orig_params=True)
    yield from train(model, _sgd(model), rank)


def fsdp2(rank: int, size: int) -> Loop:
    model = sharded((size,))
    yield from train(model, _sgd(model), rank)


def hsdp(rank: int, size: int) -> Loop:
    model = sharded((2, size // 2))
    yield from train(model, _sgd(model), rank)


def sharded(shape: tuple[int, ...]) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("between", "within")[-len(shape) :])
    model: nn.Module = Model()
    fully_shard(model, mesh=mesh)
    return model


def dtensor(rank: int, size: int) -> Loop:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (size,))
    tensor = distribute_tensor(torch.randn(8, 12), mesh, [Shard(0)])
    while True:
        for placement in (Replicate(), Shard(1), Shard(0)):
            tensor = tensor.redistribute(mesh, [placement])
        tensor.to_local().sum().item()
        yield


def tensor_parallel(rank: int, size: int) -> Loop:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (size,))
    model = nn.Sequential(nn.Linear(FEATURES, 4 * FEATURES), nn.ReLU(), nn.Linear(4 * FEATURES, FEATURES))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    yield from train(model, _sgd(model), 0)


def _pipeline(rank: int, size: int, schedule: str, stages: int = 1) -> Loop:
    from torch.distributed import pipelining

    def stage(index: int) -> Any:
        layer = nn.Linear(FEATURES, FEATURES)
        return pipelining.PipelineStage(layer, index, size * stages, torch.device("cpu"))

    kind = getattr(pipelining, schedule)
    own = [stage(rank + size * lap) for lap in range(stages)]
    made = kind(own if stages > 1 else own[0], n_microbatches=MICRO_BATCHES, loss_fn=nn.functional.mse_loss)
    inputs = torch.randn(2 * MICRO_BATCHES, FEATURES)
    while True:
        if rank == size - 1:
            made.step(*([inputs] if rank == 0 else []), target=inputs, losses=[])
        else:
            made.step(*([inputs] if rank == 0 else []))
        yield


def pipeline_gpipe(rank: int, size: int) -> Loop:
    yield from _pipeline(rank, size, "ScheduleGPipe")


def pipeline_1f1b(rank: int, size: int) -> Loop:
    yield from _pipeline(rank, size, "Schedule1F1B")


def pipeline_interleaved(rank: int, size: int) -> Loop:
    yield from _pipeline(rank, size, "ScheduleInterleaved1F1B", stages=2)


def compiled(rank: int, size: int) -> Loop:
    """Functional collectives as torch.compile keeps them, without the compiler of C++."""
    from torch.distributed import _functional_collectives as functional

    group = dist.group.WORLD

    @torch.compile(backend="aot_eager", fullgraph=True)
    def step(tensor: torch.Tensor) -> torch.Tensor:
        summed = functional.all_reduce(tensor * 2, "sum", group)
        return functional.all_gather_tensor(summed, 0, group).mean()

    while True:
        step(torch.ones(64)).item()
        yield


def checkpoint(rank: int, size: int) -> Loop:
    from torch.distributed import checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict

    folders: list[Any] = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folders)
    state = get_model_state_dict(sharded((size,)))
    while True:
        dcp.save({"model": state}, checkpoint_id=folders[0])
        yield


def monitored_barrier(rank: int, size: int) -> Loop:
    group: Any = dist.group.WORLD
    while True:
        group.monitored_barrier()
        yield


ALL = [
    ddp,
    ddp_allreduce_hook,
    ddp_fp16_hook,
    ddp_quantization_hook,
    ddp_power_sgd_hook,
    post_local_sgd,
    zero,
    fsdp1,
    fsdp2,
    hsdp,
    dtensor,
    tensor_parallel,
    pipeline_gpipe,
    pipeline_1f1b,
    pipeline_interleaved,
    compiled,
    checkpoint,
    monitored_barrier,
]
BY_NAME = {loop.__name__: loop for loop in ALL}
