"""Ray Train: python ray_training.py BACKEND RESULT"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import lesson
import ray
import torch
from ray import train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_data_loader, prepare_model
from torch import distributed
from torch.nn import functional
from torch.utils.data import DataLoader

HERE = str(Path(__file__).resolve().parent)


def work(settings: dict[str, Any]) -> None:
    sys.argv = settings["arguments"]
    network = prepare_model(lesson.network())
    optimizer = torch.optim.SGD(network.parameters(), lesson.RATE)
    training = prepare_data_loader(DataLoader(lesson.examples(), lesson.BATCH))
    validation = prepare_data_loader(DataLoader(lesson.examples(64, seed=1), lesson.BATCH))
    losses, accuracy = [], 0.0
    for _ in range(lesson.EPOCHS):
        for inputs, classes in training:
            loss = functional.cross_entropy(network(inputs), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean = loss.detach()
            distributed.all_reduce(mean)
            losses.append(mean.item() / 2)
        right = torch.tensor(0)
        for inputs, classes in validation:
            right += (network(inputs).argmax(1) == classes).sum()
        distributed.all_reduce(right)
        accuracy = right.item() / 64
        train.report({"loss": losses[-1], "accuracy": accuracy})
    if train.get_context().get_world_rank() == 0:
        lesson.tell(losses, accuracy)


def main() -> None:
    ray.init(num_cpus=3, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": HERE}})
    with tempfile.TemporaryDirectory() as folder:
        done = TorchTrainer(
            work,
            train_loop_config={"arguments": sys.argv},
            torch_config=TorchConfig(backend=lesson.backend()),
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=folder, name="lesson"),
        ).fit()
        assert done.error is None
    ray.shutdown()


if __name__ == "__main__":
    main()
