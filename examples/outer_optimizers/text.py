"""The text that is learned, byte by byte, and the part of it that is held out."""

import gzip
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

LEAST_BYTES = 1_000_000
# The Jargon File, "in the public domain, to be freely used, shared, and modified", as Debian has it.
PACKAGES = {
    "jargon-text": Path("/usr/share/doc/jargon-text/jargon.txt.gz"),
    "dict-jargon": Path("/usr/share/dictd/jargon.dict.dz"),
}
BLOCKS = 50
HELD_OUT = 10  # one of so many blocks
GZIP = b"\x1f\x8b"


class TextError(Exception):
    """There is no text, or not enough of it."""


@dataclass(frozen=True)
class Corpus:
    name: str
    training: Tensor  # numbers of bytes
    held_out: Tensor
    vocabulary: int  # different bytes


def installed() -> Path | None:
    return next((path for path in PACKAGES.values() if path.is_file()), None)


def read(path: Path | None, least_bytes: int = LEAST_BYTES) -> Corpus:
    """Blocks of the text in turn: nine to train on, one held out. Raises TextError."""
    chosen = path or installed()
    if chosen is None:
        raise TextError(
            f"no text: install the Debian package {' or '.join(PACKAGES)} (the Jargon File, in the public "
            f"domain), or name a file of at least {LEAST_BYTES} bytes with --text"
        )
    try:
        data = chosen.read_bytes()
        if data.startswith(GZIP):
            data = gzip.decompress(data)
    except (OSError, EOFError) as error:
        raise TextError(f"{chosen}: {error}") from error
    if len(data) < least_bytes:
        raise TextError(f"{chosen}: {len(data)} bytes, where at least {least_bytes} are needed")
    number = {byte: place for place, byte in enumerate(sorted(set(data)))}
    blocks = torch.tensor([number[byte] for byte in data]).tensor_split(BLOCKS)
    held_out = [block for place, block in enumerate(blocks) if place % HELD_OUT == HELD_OUT - 1]
    training = [block for place, block in enumerate(blocks) if place % HELD_OUT != HELD_OUT - 1]
    return Corpus(chosen.name, torch.cat(training), torch.cat(held_out), len(number))
