"""Accelerate: torchrun --nproc-per-node 2 accelerate_training.py BACKEND RESULT"""

import lesson
import torch
from accelerate import Accelerator
from torch import distributed
from torch.nn import functional
from torch.utils.data import DataLoader


def main() -> None:
    # Accelerate uses the group that is there, and makes none but those on a list of its own.
    distributed.init_process_group(lesson.backend())
    accelerator = Accelerator(cpu=True)
    network = lesson.network()
    network, optimizer, training, validation = accelerator.prepare(
        network,
        torch.optim.SGD(network.parameters(), lesson.RATE),
        DataLoader(lesson.examples(), lesson.BATCH),
        DataLoader(lesson.examples(60, seed=1), lesson.BATCH),  # the last batches are not full
    )
    losses, right = [], torch.tensor(0)
    for _ in range(lesson.EPOCHS):
        for inputs, classes in training:
            loss = functional.cross_entropy(network(inputs), classes)
            optimizer.zero_grad()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            losses.append(accelerator.reduce(loss.detach(), "mean").item())
        right, guesses = torch.tensor(0), []
        for inputs, classes in validation:
            with torch.no_grad():
                guess, truth = accelerator.gather_for_metrics((network(inputs), classes))
            guesses.append(guess)
            right += (guess.argmax(1) == truth).sum()
        losses.append(torch.cat(guesses).logsumexp(1).sum().item())
    kept = accelerator.gather_for_metrics([accelerator.process_index], use_gather_object=True)
    assert kept == [0, 1]
    padded = accelerator.pad_across_processes(torch.ones(1 + accelerator.process_index))
    assert padded.shape == (2,)
    if accelerator.is_main_process:
        lesson.tell(losses, right.item() / 60)
    accelerator.wait_for_everyone()
    accelerator.end_training()  # which destroys the group


if __name__ == "__main__":
    main()
