"""Training that goes on when rank 0 is killed, with the store and the controller that it had.

    python examples/torch_shrink.py

Four processes train one model. Half-way rank 0 is killed; the others hear it, shrink the group, and go on.
"""

import multiprocessing
import os
import signal
import tempfile

import square.torch
import torch
from torch import distributed, nn

RANKS, STEPS, FEATURES = 4, 40, 16


def average(model: nn.Module) -> None:
    for parameter in model.parameters():
        distributed.all_reduce(parameter.grad, op=distributed.ReduceOp.AVG)


def train(rank: int, folder: str) -> None:
    # As if each were on a host of its own.
    os.environ["SQUARE_NODE"] = f"site{rank}"
    store = distributed.FileStore(f"{folder}/store", RANKS)
    distributed.init_process_group("square", store=store, rank=rank, world_size=RANKS)
    torch.manual_seed(1)
    secret, model = torch.randn(FEATURES, 1), nn.Linear(FEATURES, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(100 + rank)
    step = 0
    while step < STEPS:
        if rank == 0 and step == STEPS // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        inputs = torch.randn(64, FEATURES)
        loss = nn.functional.mse_loss(model(inputs), inputs @ secret)
        optimizer.zero_grad()
        loss.backward()
        try:
            average(model)
        except distributed.DistBackendError as error:
            square.torch.shrink()
            print(f"rank {rank} goes on as {distributed.get_rank()}: {error}", flush=True)
            # Some may have been a step ahead.
            at = torch.tensor([step])
            for state in (at, *(parameter.data for parameter in model.parameters())):
                distributed.broadcast(state, src=0)
            step = int(at)
            continue
        optimizer.step()
        step += 1
    if distributed.get_rank() == 0:
        print(f"{distributed.get_world_size()} ranks are left; the loss is {loss.item():.6f}")
    assert loss.item() < 0.1
    distributed.destroy_process_group()


def main() -> None:
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=train, args=(rank, folder)) for rank in range(RANKS)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
    if any(process.exitcode for process in ranks[1:]):
        raise SystemExit("a rank that was not killed has failed")


if __name__ == "__main__":
    main()
