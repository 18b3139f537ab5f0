"""Ray Train over square: the backend of TorchConfig is all that changes.

    pip install "ray[train]" && python examples/torch_ray.py

Two workers on this machine train one model and end with the same parameters.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import ray
import torch
from ray import train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model
from torch import distributed, nn

FEATURES = 32


def work(settings: dict[str, Any]) -> None:
    torch.manual_seed(1)
    secret = torch.randn(FEATURES, 1)
    model = prepare_model(nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(100 + distributed.get_rank())
    for _ in range(settings["steps"]):
        inputs = torch.randn(64, FEATURES)
        loss = nn.functional.mse_loss(model(inputs), inputs @ secret)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    sums = [torch.zeros(1) for _ in range(distributed.get_world_size())]
    distributed.all_gather(sums, sum(p.detach().sum() for p in model.parameters()).reshape(1))
    told = {
        "backend": distributed.get_backend(),
        "workers": distributed.get_world_size(),
        "loss": loss.item(),
        "same": all(bool(torch.equal(one, sums[0])) for one in sums),
    }
    if distributed.get_rank() == 0:
        Path(settings["told"]).write_text(json.dumps(told))
    train.report(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", default="square")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    ray.init(num_cpus=options.workers + 1, include_dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        TorchTrainer(
            work,
            train_loop_config={"steps": options.steps, "told": str(told)},
            torch_config=TorchConfig(backend=options.backend),
            scaling_config=ScalingConfig(num_workers=options.workers),
            run_config=RunConfig(storage_path=folder, name="square"),
        ).fit()
        print(told.read_text())
    ray.shutdown()


if __name__ == "__main__":
    main()
