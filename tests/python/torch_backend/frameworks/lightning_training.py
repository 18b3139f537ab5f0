"""Lightning: python lightning_training.py FOLDER BACKEND-LAUNCHER...

One training after the other; results are in the folder, under these names. popen runs the script again, so it
comes alone.
"""

import sys
from pathlib import Path
from typing import Any

import lesson
import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch.nn import functional
from torch.utils.data import DataLoader
from torchmetrics.classification import MulticlassAccuracy


class Module(lightning.LightningModule):
    def __init__(self, result: Path) -> None:
        super().__init__()
        self.result = result
        self.network = lesson.network()
        self.accuracy = MulticlassAccuracy(lesson.CLASSES, average="micro")
        self.losses: list[float] = []

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        loss = functional.cross_entropy(self.network(batch[0]), batch[1])
        self.log("loss", loss, sync_dist=True)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        guess = self.network(batch[0])
        self.accuracy(guess, batch[1])
        self.log("validated", functional.cross_entropy(guess, batch[1]), sync_dist=True)
        self.log("accuracy", self.accuracy)

    def on_validation_epoch_end(self) -> None:
        ones = self.all_gather(torch.tensor(1))
        assert ones.tolist() == [1, 1]

    def on_train_epoch_end(self) -> None:
        values = self.trainer.callback_metrics
        self.losses += [float(values["loss"]), float(values["validated"])]

    def on_train_end(self) -> None:
        if self.trainer.is_global_zero:
            lesson.tell(self.losses, float(self.trainer.callback_metrics["accuracy"]), self.result)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lesson.RATE)


def train(folder: Path, name: str) -> None:
    backend, launcher = name.split("-")
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(process_group_backend=backend, start_method=launcher),
        max_epochs=lesson.EPOCHS,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    training, validation = lesson.examples(), lesson.examples(64, seed=1)
    module = Module(folder / name)
    trainer.fit(module, DataLoader(training, lesson.BATCH), DataLoader(validation, lesson.BATCH))


def main() -> None:
    for name in sys.argv[2:]:
        train(Path(sys.argv[1]), name)


if __name__ == "__main__":
    main()
