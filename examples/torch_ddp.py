"""Data-parallel training whose gradients go over square: the one word that changes is the backend.

    torchrun --nproc-per-node 2 examples/torch_ddp.py
    torchrun --nproc-per-node 2 examples/torch_ddp.py --backend gloo

Every rank has other data and ends with the same model.
"""

import argparse

import torch
from torch import distributed, nn

FEATURES = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", default="square")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    if options.steps < 1:
        parser.error("--steps must be at least 1")

    distributed.init_process_group(options.backend)
    rank = distributed.get_rank()
    torch.manual_seed(1)
    secret = torch.randn(FEATURES, 1)
    model = nn.parallel.DistributedDataParallel(nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(100 + rank)
    for step in range(1, options.steps + 1):
        inputs = torch.randn(64, FEATURES)
        loss = nn.functional.mse_loss(model(inputs), inputs @ secret)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step:3}  loss {loss.item():.6f}", flush=True)

    weights = model.module.weight.detach().clone()
    everybody = [torch.empty_like(weights) for _ in range(distributed.get_world_size())]
    distributed.all_gather(everybody, weights)
    assert all(torch.equal(weights, other) for other in everybody)
    if loss.item() >= 0.1:
        raise SystemExit(f"the loss is still {loss.item():.3f}: it needs more than {options.steps} steps")
    if rank == 0:
        print(f"{len(everybody)} ranks have the same model, by {options.backend}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
