"""DeepSpeed on the CPU: torchrun --nproc-per-node 2 deepspeed_training.py BACKEND RESULT STAGE"""

import sys

import deepspeed
import lesson
import torch
from torch import distributed
from torch.nn import functional


def main() -> None:
    deepspeed.init_distributed(dist_backend=lesson.backend())
    network = lesson.network()
    engine, _, training, _ = deepspeed.initialize(
        model=network,
        model_parameters=network.parameters(),
        training_data=lesson.examples(),
        config={
            "train_micro_batch_size_per_gpu": lesson.BATCH,
            "optimizer": {"type": "SGD", "params": {"lr": lesson.RATE}},
            "zero_optimization": {"stage": int(sys.argv[3])},
            "zero_allow_untested_optimizer": True,
        },
    )
    losses = []
    for _ in range(lesson.EPOCHS):
        for inputs, classes in training:
            loss = functional.cross_entropy(engine(inputs), classes)
            engine.backward(loss)
            engine.step()
            total = loss.detach()
            deepspeed.comm.all_reduce(total)
            losses.append(total.item() / distributed.get_world_size())
    inputs, classes = lesson.examples(64, seed=1).tensors
    with torch.no_grad():
        right = (engine(inputs).argmax(1) == classes).float().mean().item()
    deepspeed.comm.barrier()
    if distributed.get_rank() == 0:
        lesson.tell(losses, right)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
