"""Hugging Face's Trainer: torchrun --nproc-per-node 2 transformers_training.py BACKEND RESULT"""

import tempfile
from typing import Any

import lesson
import torch
from torch import distributed, nn
from torch.nn import functional
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments


class Examples(Dataset[Any]):
    def __init__(self, count: int, seed: int) -> None:
        self.examples = lesson.examples(count, seed)

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> dict[str, Any]:
        inputs, label = self.examples[index]
        return {"inputs": inputs, "labels": label}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = lesson.network()

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.network(inputs)
        return {"loss": functional.cross_entropy(logits, labels), "logits": logits}


def accuracy(prediction: Any) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(1) == prediction.label_ids).mean())}


def main() -> None:
    # The Trainer uses the group that is there, and makes none but those on a list of its own.
    distributed.init_process_group(lesson.backend())
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            num_train_epochs=lesson.EPOCHS,
            per_device_train_batch_size=lesson.BATCH,
            per_device_eval_batch_size=lesson.BATCH,
            learning_rate=lesson.RATE,
            logging_steps=1,
            eval_strategy="epoch",
            save_strategy="epoch",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            seed=3,
        )
        trainer = Trainer(
            Model(),
            settings,
            train_dataset=Examples(128, 0),
            eval_dataset=Examples(60, 1),
            compute_metrics=accuracy,
        )
        trainer.train()
        said = trainer.state.log_history
        losses = [line[key] for line in said for key in ("loss", "grad_norm", "eval_loss") if key in line]
        if trainer.is_world_process_zero():
            lesson.tell(losses, [line["eval_accuracy"] for line in said if "eval_accuracy" in line][-1])
        distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
