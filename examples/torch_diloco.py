"""DiLoCo: four members that exchange a model every 20 steps, and go on when one is killed.

    python examples/torch_diloco.py

Each trains on data of its own. Half-way one is killed; its round is lost, what the others learned is not.
"""

import multiprocessing
import os
import signal
import tempfile

import square
import torch
from torch import distributed, nn

MEMBERS, STEPS, EVERY, FEATURES, VICTIM = 4, 400, 20, 16, 2


def train(rank: int, folder: str) -> None:
    # As if each were on a host of its own.
    os.environ["SQUARE_NODE"] = f"site{rank}"
    store = distributed.FileStore(f"{folder}/store", MEMBERS)
    distributed.init_process_group("square", store=store, rank=rank, world_size=MEMBERS)
    torch.manual_seed(1)
    secret, model = torch.randn(FEATURES, 1), nn.Linear(FEATURES, 1)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(100 + rank)
    with square.diloco.DiLoCo(model, inner, sync_every=EVERY) as diloco:
        for step in range(STEPS):
            if rank == VICTIM and step == STEPS // 2 + 3:
                os.kill(os.getpid(), signal.SIGKILL)
            inputs = torch.randn(64, FEATURES)
            loss = nn.functional.mse_loss(model(inputs), inputs @ secret)
            loss.backward()
            diloco.consumed(len(inputs))
            inner.step()
            inner.zero_grad()
        diloco.sync()
    if distributed.get_rank(diloco.group) == 0:
        for one in diloco.history:
            if one.is_lost:
                print(f"round {one.number} is lost: {one.loss}")
        last = diloco.history[-1]
        print(f"{last.number} rounds, {last.members} members at the end; the loss is {loss.item():.6f}")
    assert loss.item() < 0.1
    distributed.destroy_process_group()


def main() -> None:
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        members = [context.Process(target=train, args=(rank, folder)) for rank in range(MEMBERS)]
        for process in members:
            process.start()
        for process in members:
            process.join()
    if any(process.exitcode for rank, process in enumerate(members) if rank != VICTIM):
        raise SystemExit("a member that was not killed has failed")


if __name__ == "__main__":
    main()
