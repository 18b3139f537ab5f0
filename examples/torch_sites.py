"""Several sites: gradients are added inside each site by one backend, and between sites by square.

    torchrun --nproc-per-node 4 examples/torch_sites.py

Four ranks play two sites of two. Inside a site, where links are fast, Gloo shards the sum (on GPUs it
would be NCCL); between sites, where they are slow and uneven, square adds the shards, each rank its own,
so every byte crosses once. This is how hybrid sharding (HSDP) talks.
"""

import argparse
import os

import torch
from torch import distributed

ELEMENTS = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=int, default=2)
    parser.add_argument("--inside", default="gloo", help="the backend inside a site")
    options = parser.parse_args()

    distributed.init_process_group(options.inside)
    rank, size = distributed.get_rank(), distributed.get_world_size()
    if options.sites < 1 or size % options.sites != 0 or ELEMENTS % (size // options.sites) != 0:
        raise SystemExit(
            f"{size} ranks are not {options.sites} sites of as many ranks each that divide {ELEMENTS}"
        )
    per_site = size // options.sites
    site, place = divmod(rank, per_site)
    # Real sites have host names; on one machine a name makes a node.
    os.environ.setdefault("SQUARE_NODE", f"site{site}")
    inside = [
        distributed.new_group([other * per_site + i for i in range(per_site)])
        for other in range(options.sites)
    ][site]
    between = [
        distributed.new_group([other * per_site + i for other in range(options.sites)], backend="square")
        for i in range(per_site)
    ][place]

    gradients = torch.full((ELEMENTS,), float(rank))
    shard = torch.empty(ELEMENTS // per_site)
    distributed.reduce_scatter_tensor(shard, gradients, group=inside)
    distributed.all_reduce(shard, group=between)
    distributed.all_gather_into_tensor(gradients, shard, group=inside)

    assert torch.equal(gradients, torch.full((ELEMENTS,), size * (size - 1) / 2))
    if rank == 0:
        print(f"{ELEMENTS} gradients of {size} ranks at {options.sites} sites added up")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
