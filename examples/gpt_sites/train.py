"""Trains a small GPT on the characters of a text, data-parallel: an ordinary script for torchrun.

    torchrun --nproc-per-node 2 examples/gpt_sites/train.py --backend gloo
    torchrun --nproc-per-node 2 examples/gpt_sites/train.py --backend square
    torchrun --nproc-per-node 2 examples/gpt_sites/train.py --backend square --sharded

Nothing in it knows of square: the backend's name is the one word that changes.
"""

import argparse
import copy
import gc
import json
import statistics
import time
from pathlib import Path

import torch
from model import Gpt
from torch import Tensor, distributed, nn
from torch.nn import functional

CALCULATIONS = 10  # steps without the others, whose time is taken


def batch_of(text: Tensor, pieces: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pieces of the text, and the same pieces one character later."""
    starts = torch.randint(len(text) - length, (pieces,), generator=generator).tolist()
    here = torch.stack([text[start : start + length] for start in starts])
    there = torch.stack([text[start + 1 : start + length + 1] for start in starts])
    return here, there


def parallel(gpt: Gpt, sharded: bool, alone: bool = False) -> nn.Module:
    """Whole at every rank (DDP), or block by block in as many parts as there are ranks (FSDP2). Alone: the
    same where a rank has no others."""
    if not sharded:
        return gpt if alone else nn.parallel.DistributedDataParallel(gpt)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    size = distributed.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    if alone:
        mesh = init_device_mesh("cpu", (size, 1), mesh_dim_names=("ranks", "alone"))["alone"]
    for block in gpt.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(gpt, mesh=mesh)


def step_of(model: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple[Tensor, Tensor]) -> Tensor:
    inputs, targets = batch
    loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def calculation_seconds(gpt: Gpt, sharded: bool, batch: tuple[Tensor, Tensor]) -> float:
    """Of a step in which nothing goes to others, while all ranks calculate; the median."""
    alone = parallel(copy.deepcopy(gpt), sharded, alone=True)
    optimizer = torch.optim.AdamW(alone.parameters())
    distributed.barrier()
    seconds = []
    for _ in range(CALCULATIONS):
        begun = time.perf_counter()
        step_of(alone, optimizer, batch)
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def mean_of_ranks(value: Tensor) -> float:
    distributed.all_reduce(value)
    return float(value) / distributed.get_world_size()


def train(options: argparse.Namespace) -> dict[str, object]:
    """The loss every few steps, as the mean of all ranks since the last, and the seconds of every step."""
    characters = options.text.read_text(encoding="utf-8")
    vocabulary = {character: number for number, character in enumerate(sorted(set(characters)))}
    text = torch.tensor([vocabulary[character] for character in characters])

    rank = distributed.get_rank()
    torch.manual_seed(options.seed)
    gpt = Gpt(len(vocabulary), options.length, options.width, options.layers)
    parameters = sum(one.numel() for one in gpt.parameters())
    in_blocks = sum(one.numel() for one in gpt.blocks.parameters())
    generator = torch.Generator().manual_seed(options.seed * distributed.get_world_size() + rank)
    first = batch_of(text, options.pieces, options.length, torch.Generator().manual_seed(0))
    calculation = calculation_seconds(gpt, options.sharded, first)
    model = parallel(gpt, options.sharded)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate)
    if rank == 0:
        print(f"{options.backend}: {parameters} parameters, {len(characters)} characters", flush=True)

    losses, seconds = [], []
    recent = torch.zeros(())
    for step in range(1, options.steps + 1):
        batch = batch_of(text, options.pieces, options.length, generator)
        begun = time.perf_counter()
        loss = step_of(model, optimizer, batch)
        seconds.append(time.perf_counter() - begun)
        recent += loss / options.every
        if step % options.every == 0:
            losses.append((step, mean_of_ranks(recent)))
            recent.zero_()
            if rank == 0:
                print(f"{options.backend}: step {step:4}  loss {losses[-1][1]:.4f}", flush=True)
    return {
        "backend": options.backend,
        "parameters": parameters,
        "parameters_in_blocks": in_blocks,
        "calculation_seconds": calculation,
        "losses": losses,
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", default="square")
    parser.add_argument("--text", type=Path, default=Path(__file__).with_name("psalms.txt"), metavar="FILE")
    parser.add_argument("--steps", type=int, default=40, metavar="N")
    parser.add_argument("--every", type=int, default=5, metavar="N", help="steps from one loss to the next")
    parser.add_argument("--pieces", type=int, default=4, metavar="N", help="of text, in a rank's batch")
    parser.add_argument("--length", type=int, default=64, metavar="N", help="of a piece, in characters")
    parser.add_argument("--width", type=int, default=128, metavar="N")
    parser.add_argument("--layers", type=int, default=6, metavar="N")
    parser.add_argument("--rate", type=float, default=1e-3, metavar="R", help="of learning")
    parser.add_argument("--sharded", action="store_true", help="FSDP2 instead of DDP")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write losses and times there, as JSON")
    options = parser.parse_args()

    distributed.init_process_group(options.backend)
    report = train(options)
    if distributed.get_rank() == 0 and options.report is not None:
        options.report.write_text(json.dumps(report), encoding="utf-8")
    distributed.destroy_process_group()
    # Model and group refer to one another; Gloo's threads want to be joined before the process ends.
    gc.collect()


if __name__ == "__main__":
    main()
