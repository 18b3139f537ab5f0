"""All runs, on as many processes as asked for. Which process does which makes no difference."""

import io
import multiprocessing
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import model
import modes
import text
import torch
from modes import Run, Task


@dataclass(frozen=True)
class Source:
    path: Path | None
    least_bytes: int

    def read(self) -> text.Corpus:
        return text.read(self.path, self.least_bytes)


_corpora: dict[Source, text.Corpus] = {}


def _corpus(source: Source) -> text.Corpus:
    torch.set_num_threads(1)  # sums in one order
    if source not in _corpora:
        _corpora[source] = source.read()
    return _corpora[source]


def _warm(given: tuple[Source, Task]) -> bytes:
    source, task = given
    start = model.warm_start(task.learning, _corpus(source), task.seed, len(task.clusters))
    buffer = io.BytesIO()
    torch.save(start, buffer)
    return buffer.getvalue()


def _run(given: tuple[Source, Task, bytes]) -> Run:
    source, task, saved = given
    start: dict[str, Any] = torch.load(io.BytesIO(saved))
    return modes.run(task, _corpus(source), start)


def run(source: Source, tasks: list[Task], jobs: int) -> list[Run]:
    """In the order of the tasks; what each came to on stderr."""
    seeds = sorted({task.seed for task in tasks})
    firsts = [next(task for task in tasks if task.seed == seed) for seed in seeds]
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(tasks))) as pool:
        warm = dict(zip(seeds, pool.imap(_warm, [(source, one) for one in firsts]), strict=True))
        print(f"warm starts of seeds {', '.join(map(str, seeds))} are done", file=sys.stderr, flush=True)
        given = [(source, task, warm[task.seed]) for task in tasks]
        return list(_told(pool.imap(_run, given), len(tasks)))


def _told(runs: Iterator[Run], count: int) -> Iterator[Run]:
    for number, one in enumerate(runs, 1):
        print(
            f"{number}/{count}: seed {one.seed}, H = {one.horizon}, {one.mode}: held-out loss "
            f"{one.curve[0][3]:.4f} to {one.loss:.4f}, bits {one.digest}",
            file=sys.stderr,
            flush=True,
        )
        yield one
