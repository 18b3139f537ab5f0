"""One emulated cluster: trains by sleeping, and exchanges its model. Started by ps_clusters.py at a site.

    ps_cluster.py MODE SITE SETTINGS   MODE is "ps", "diloco" or "gloo"; SETTINGS is JSON

Prints a line of JSON: the tokens that it trained on and the seconds that exchanges took.
"""

import argparse
import json
import os
import time
from typing import Any

import numpy as np


def train_with_servers(site: str, settings: dict[str, Any]) -> dict[str, Any]:
    import square.ps

    model = {"all": np.zeros(settings["elements"], np.float32)}
    waits: list[float] = []
    breakdown: list[tuple[float, float]] = []
    with square.ps.Worker(
        model,
        master=settings["master"],
        name=site,
        identity=os.environ["SQUARE_IDENTITY"],
        bind=f"{os.environ['SQUARE_INTERFACE']}:0",
        timeout=120,
    ) as worker:
        _wait_for_all(settings)
        begun = time.time()
        end = begun + settings["seconds"]
        while time.time() < end:
            time.sleep(settings["steps"] * settings["step_seconds"])
            model["all"] -= np.float32(1e-3)
            worker.consumed(settings["steps"])
            came = worker.sync()
            if came.outcome != "adopted":
                raise SystemExit(f"{site}: {came}")
            waits.append(came.seconds)
            if settings.get("breakdown"):
                breakdown.append(_push_and_pull(site, settings))
        spent = time.time() - begun
    steps = len(waits) * settings["steps"]
    return {"steps": steps, "seconds": spent, "waits": waits, "breakdown": breakdown}


def _push_and_pull(site: str, settings: dict[str, Any]) -> tuple[float, float]:
    """Seconds of the last ones, as the master has them."""
    import square.ps

    status = square.ps.ask(settings["master"], identity=os.environ["SQUARE_IDENTITY"])
    own = next(worker for worker in status.workers if worker.name == site)
    return own.push_seconds, own.pull_seconds


def train_with_diloco(site: str, settings: dict[str, Any]) -> dict[str, Any]:
    import square.diloco
    import torch
    import torch.distributed as dist

    dist.init_process_group("square")
    model = torch.nn.Linear(settings["elements"] // 1000, 1000, bias=False)
    inner = torch.optim.SGD(model.parameters(), lr=1e-6)
    model.weight.grad = torch.ones_like(model.weight)
    with square.diloco.DiLoCo(model, inner, sync_every=settings["steps"], compression="bf16") as diloco:
        dist.barrier()
        begun = time.time()
        rounds = 0
        while time.time() < begun + settings["seconds"]:
            for step in range(settings["steps"]):
                if step == 0:
                    time.sleep(settings["steps"] * settings["step_seconds"])
                diloco.consumed(1)
                inner.step()
            rounds += 1
            # All decide alike: the first says whether there is another round.
            more = torch.tensor([time.time() < begun + settings["seconds"]], dtype=torch.int32)
            dist.broadcast(more, 0)
            if not more.item():
                break
        spent = time.time() - begun
        waits = [one.waited_seconds for one in diloco.history]
    dist.destroy_process_group()
    return {"steps": rounds * settings["steps"], "seconds": spent, "waits": waits}


def push_over_gloo(site: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The same bytes by send and receive: a push in bfloat16 to rank 0, and its answer in float32."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    push = torch.zeros(settings["elements"], dtype=torch.bfloat16)
    pull = torch.zeros(settings["elements"], dtype=torch.float32)
    waits = []
    for _ in range(settings["rounds"]):
        dist.barrier()
        for rank in range(1, dist.get_world_size()):
            begun = time.time()
            if dist.get_rank() == 0:
                dist.recv(push, rank)
                dist.send(pull, rank)
            elif dist.get_rank() == rank:
                dist.send(push, 0)
                dist.recv(pull, 0)
                waits.append(time.time() - begun)
            dist.barrier()
    dist.destroy_process_group()
    return {"steps": 0, "seconds": 0.0, "waits": waits}


def _wait_for_all(settings: dict[str, Any]) -> None:
    """Until every cluster is there: the first rounds must not be longer than others."""
    import square.ps

    while (
        len(square.ps.ask(settings["master"], identity=os.environ["SQUARE_IDENTITY"]).workers)
        < settings["clusters"]
    ):
        time.sleep(0.1)


MODES = {"ps": train_with_servers, "diloco": train_with_diloco, "gloo": push_over_gloo}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("site")
    parser.add_argument("settings", type=json.loads)
    options = parser.parse_args()
    said = MODES[options.mode](options.site, options.settings)
    print(json.dumps({"site": options.site, **said}), flush=True)


if __name__ == "__main__":
    main()
