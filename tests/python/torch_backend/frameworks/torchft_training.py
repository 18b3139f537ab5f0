"""torchft's Manager: python torchft_training.py BACKEND RESULT starts a lighthouse and two replicas."""

import os
import subprocess
import sys
from datetime import timedelta
from typing import Any

import lesson
import torch
import torchft
from torch.nn import functional
from torch.utils.data import DataLoader
from torchft.coordination import LighthouseServer

REPLICAS = 2
SECONDS = 30


def process_group() -> Any:
    timeout = timedelta(seconds=SECONDS)
    if lesson.backend() == "gloo":
        return torchft.ProcessGroupGloo(timeout=timeout)
    from square.torch.torchft import ProcessGroupSquare

    return ProcessGroupSquare(timeout=timeout)


def replicate(replica: int) -> None:
    """One replica, of one process: it has a store of its own, and meets others through its Manager."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True)
    network = lesson.network()
    optimizer = torch.optim.SGD(network.parameters(), lesson.RATE)

    def load(state: dict[str, Any]) -> None:
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])

    group = process_group()
    manager = torchft.Manager(
        pg=group,
        min_replica_size=REPLICAS,
        load_state_dict=load,
        state_dict=lambda: {"network": network.state_dict(), "optimizer": optimizer.state_dict()},
        replica_id=f"replica_{replica}",
        store_addr="127.0.0.1",
        store_port=store.port,
        rank=0,
        world_size=1,
        timeout=timedelta(seconds=SECONDS),
    )
    model = torchft.DistributedDataParallel(manager, network)
    stepping = torchft.Optimizer(manager, optimizer)
    sampler = torchft.DistributedSampler(
        lesson.examples(),
        replica_rank=replica,
        num_replica_groups=REPLICAS,
        group_rank=0,
        num_replicas=1,
        shuffle=False,
    )
    losses = []
    for _ in range(lesson.EPOCHS):
        for inputs, classes in DataLoader(lesson.examples(), lesson.BATCH, sampler=sampler):
            stepping.zero_grad()
            loss = functional.cross_entropy(model(inputs), classes)
            loss.backward()
            stepping.step()
            mean = loss.detach().clone()
            manager.allreduce(mean).wait()
            losses.append(mean.item())
    assert manager.current_step() == len(losses)
    assert manager.errored() is None
    inputs, classes = lesson.examples(64, seed=1).tensors
    right = (network(inputs).argmax(1) == classes).float().mean().item()
    # Replicas do not have the same rank each time.
    if replica == 0:
        lesson.tell(losses, right, trained_on=group.getBackendName().removeprefix("torchft-"))
    manager.shutdown(wait=False)
    group.shutdown()


def main() -> None:
    lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=REPLICAS, join_timeout_ms=10_000)
    environment = {**os.environ, "TORCHFT_LIGHTHOUSE": lighthouse.address()}
    replicas = [
        subprocess.Popen([sys.executable, __file__, *sys.argv[1:], str(replica)], env=environment)
        for replica in range(REPLICAS)
    ]
    codes = [replica.wait() for replica in replicas]
    lighthouse.shutdown()
    sys.exit(max(map(abs, codes)))


if __name__ == "__main__":
    if len(sys.argv) > 3:
        replicate(int(sys.argv[3]))
    else:
        main()
