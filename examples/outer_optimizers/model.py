"""The small GPT of gpt_sites, one cluster that trains it, and the loss on held-out text."""

import copy
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from text import Corpus
from torch import Tensor, nn
from torch.nn import functional

Floats = npt.NDArray[np.float32]

GPT = Path(__file__).resolve().parent.parent / "gpt_sites" / "model.py"
FIRST_STEPS = 50  # of the warm start, in which the rate rises
LAST_RATE = 0.1  # of the first one, when all tokens are consumed
HELD_OUT_BATCH = 64


@dataclass(frozen=True)
class Learning:
    """What all modes have in common."""

    width: int = 64
    layers: int = 2
    heads: int = 4
    length: int = 64  # of a piece of text, in bytes
    pieces: int = 4  # in a cluster's batch
    rate: float = 2e-3
    warm_steps: int = 300
    tokens: int = 1_024_000
    held_out_pieces: int = 256

    @property
    def step_tokens(self) -> int:
        """Of one step of one cluster."""
        return self.length * self.pieces

    def rate_at(self, consumed: float) -> float:
        """Falls in a straight line, by the tokens that all clusters have consumed since the warm start."""
        return self.rate * (1 - (1 - LAST_RATE) * min(1.0, consumed / self.tokens))


def gpt(learning: Learning, vocabulary: int) -> nn.Module:
    spec = importlib.util.spec_from_file_location("gpt_sites_model", GPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: nn.Module = module.Gpt(vocabulary, learning.length, learning.width, learning.layers, learning.heads)
    return made


def pieces_at(text: Tensor, starts: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Pieces of the text, and the same pieces one byte later."""
    places = starts.unsqueeze(1) + torch.arange(length)
    return text[places], text[places + 1]


def loss_of(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    inputs, targets = batch
    return functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


class Cluster:
    """A model, its inner optimizer, and as many streams of data as clusters that it stands for."""

    def __init__(self, learning: Learning, corpus: Corpus, seed: int, streams: list[int]) -> None:
        torch.manual_seed(seed)
        self.learning, self.text = learning, corpus.training
        self.model = gpt(learning, corpus.vocabulary)
        self.inner = torch.optim.AdamW(self.model.parameters(), lr=learning.rate, fused=True)
        self.streams = [torch.Generator().manual_seed(1000 * seed + stream) for stream in streams]

    def batch(self) -> tuple[Tensor, Tensor]:
        last, size = len(self.text) - self.learning.length - 1, (self.learning.pieces,)
        starts = [torch.randint(last, size, generator=stream) for stream in self.streams]
        return pieces_at(self.text, torch.cat(starts), self.learning.length)

    def step(self, rate: float) -> None:
        self.inner.param_groups[0]["lr"] = rate
        loss_of(self.model, self.batch()).backward()
        self.inner.step()
        self.inner.zero_grad()

    def train(self, steps: int, consumed: float, clusters: int) -> None:
        """`consumed` tokens of all clusters before, and in each step what all of them consume together."""
        for step in range(steps):
            self.step(self.learning.rate_at(consumed + step * clusters * self.learning.step_tokens))

    def parameters(self) -> Floats:
        """All in one row; a copy."""
        parts = [one.detach().reshape(-1) for one in self.model.parameters()]
        return np.asarray(torch.cat(parts).numpy())

    def load(self, values: Floats) -> None:
        row, first = torch.from_numpy(np.array(values)), 0
        with torch.no_grad():
            for one in self.model.parameters():
                one.copy_(row[first : first + one.numel()].view_as(one))
                first += one.numel()

    def state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "inner": self.inner.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        # The optimizer would keep these very tensors, and others begin with them, too.
        self.inner.load_state_dict(copy.deepcopy(state["inner"]))


class HeldOut:
    """The same pieces for every mode and seed."""

    def __init__(self, learning: Learning, corpus: Corpus) -> None:
        last = len(corpus.held_out) - learning.length - 1
        starts = torch.linspace(0, last, learning.held_out_pieces).long()
        inputs, targets = pieces_at(corpus.held_out, starts, learning.length)
        self._batches = list(zip(inputs.split(HELD_OUT_BATCH), targets.split(HELD_OUT_BATCH), strict=True))
        self._pieces = learning.held_out_pieces

    def loss(self, model: nn.Module) -> float:
        """In nats a byte."""
        with torch.inference_mode():
            return sum(float(loss_of(model, one)) * len(one[0]) for one in self._batches) / self._pieces


def warm_start(learning: Learning, corpus: Corpus, seed: int, clusters: int) -> dict[str, Any]:
    """Plain training on all clusters' batches: where every mode begins."""
    whole = Cluster(learning, corpus, seed, [100 + number for number in range(clusters)])
    for step in range(learning.warm_steps):
        whole.step(learning.rate * min(1.0, (step + 1) / FIRST_STEPS))
    return whole.state()
