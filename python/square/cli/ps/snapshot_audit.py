"""Reads the snapshots of all servers of a training, and finds what does not fit together."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from square.errors import InvalidArgumentError, NotFoundError, SquareError
from square.ps import RoundPush, read_snapshot

# Sums of shares that are each rounded once.
_WEIGHT_ERROR = 1e-9


@dataclass(frozen=True)
class Part:
    """A snapshot without its parameters: of all versions they would not fit into memory."""

    file: Path
    version: int
    tokens: int
    server: str
    first_element: int
    elements: int
    hash: int
    # The round that made it, as text: a NaN differs from itself.
    record: str
    model: tuple[tuple[str, str, tuple[int, ...]], ...]
    pushes: tuple[RoundPush, ...]


@dataclass(frozen=True)
class AuditedVersion:
    """A version, the hashes of its parts by server, and what is wrong with it."""

    version: int
    hashes: dict[str, str]
    pushes: int
    tokens: int | None
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class Audit:
    """``chunks``: how many different ones the pushes of these versions have."""

    versions: tuple[AuditedVersion, ...]
    chunks: int

    @property
    def is_good(self) -> bool:
        return not any(one.wrong for one in self.versions)


def audit_folders(folders: Sequence[Path]) -> Audit:
    """Reads every snapshot once, one at a time.

    Raises NotFoundError for a folder that is not there, InvalidArgumentError where none has snapshots.
    """
    by_version: dict[int, list[Path]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise NotFoundError(f"{folder}: there is no such folder")
        for file in folder.glob("version-*.snapshot"):
            by_version.setdefault(_version_of(file), []).append(file)
    if not by_version:
        raise InvalidArgumentError(f"no snapshots in {', '.join(map(str, folders))}")
    chain = _Chain(folders)
    return Audit(
        tuple(chain.add(version, by_version[version]) for version in sorted(by_version)), chain.chunks
    )


def _version_of(file: Path) -> int:
    number = file.name.split("-")[1].removesuffix(".snapshot")
    if not number.isdecimal():
        raise InvalidArgumentError(f"{file}: no server calls its snapshots so")
    return int(number)


class _Chain:
    """What the versions so far leave to the next."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._before: Part | None = None
        self._number = 0
        self._counted: dict[int, int] = {}

    @property
    def chunks(self) -> int:
        return len(self._counted)

    def add(self, version: int, files: list[Path]) -> AuditedVersion:
        wrong: list[str] = []
        if self._number and version != self._number + 1:
            wrong.append(f"no snapshot of {_span(self._number + 1, version - 1)}")
        # An attempt that was given up leaves a file of another name; the version is what most servers have.
        times = Counter(sorted(file.name for file in files))
        ((name, _),) = times.most_common(1)
        wrong += [f"{file}: of another attempt at it" for file in files if file.name != name]
        parts = list(_read([file for file in sorted(files) if file.name == name], wrong))
        wrong += self._missing(parts, name)
        wrong += _differences(version, parts)
        if parts:
            wrong += self._against_before(parts[0])
        self._number = version
        return AuditedVersion(
            version,
            {part.server: f"{part.hash:016x}" for part in sorted(parts, key=lambda one: one.first_element)},
            len(parts[0].pushes) if parts else 0,
            parts[0].tokens if parts else None,
            tuple(wrong),
        )

    def _missing(self, parts: list[Part], name: str) -> Iterable[str]:
        """Elements that no part has, or that several have, and who could have them."""
        if not parts:
            return
        end = 0
        gaps = []
        for part in sorted(parts, key=lambda one: one.first_element):
            if part.first_element < end:
                yield f"{part.file}: has elements {part.first_element:,} to {end:,}, as another has"
            elif part.first_element > end:
                gaps.append(f"{end:,} to {part.first_element:,}")
            end = max(end, part.first_element + part.elements)
        size = sum(math.prod(shape) for _, _, shape in parts[0].model)
        if end < size:
            gaps.append(f"{end:,} to {size:,}")
        if not gaps:
            return
        absent = [f"no {folder / name}" for folder in self._folders if not (folder / name).exists()]
        named = f": there is {' and '.join(absent)}" if absent else ""
        yield f"elements {', '.join(gaps)} are in no readable snapshot of these folders{named}"

    def _against_before(self, part: Part) -> Iterable[str]:
        pushed = sum(push.tokens for push in part.pushes)
        before = self._before
        if part.version == 1 and (pushed or part.tokens):
            yield "the first version has pushes or tokens in it"
        if before is not None and before.model != part.model:
            yield "of another model than the versions before"
        if (
            before is not None
            and before.version == part.version - 1
            and before.tokens + pushed != part.tokens
        ):
            yield f"{part.tokens:,} tokens, and not the {before.tokens:,} before and {pushed:,} of its pushes"
        for push in part.pushes:
            if push.base_version >= part.version:
                yield f"the push of {push.worker} begins at version {push.base_version}"
            for chunk in push.chunks:
                if chunk in self._counted:
                    first = self._counted[chunk]
                    yield f"chunk {chunk} of {push.worker} is counted in version {first} already"
                self._counted[chunk] = part.version
        self._before = part


def _read(files: Iterable[Path], wrong: list[str]) -> Iterable[Part]:
    for file in files:
        try:
            read = read_snapshot(file)
        except SquareError as error:
            wrong.append(str(error))  # which names the file
            continue
        yield Part(
            file=file,
            version=read.version,
            tokens=read.tokens,
            server=read.server,
            first_element=read.first_element,
            elements=len(read.parameters),
            hash=read.hash,
            record=repr((read.version, read.tokens, read.norm, read.factor, read.pushes)),
            model=read.model,
            pushes=read.pushes,
        )


def _differences(version: int, parts: list[Part]) -> Iterable[str]:
    for part in parts:
        if part.version != version:
            yield f"{part.file}: has version {part.version}"
        if part.record != parts[0].record:
            yield f"{part.file}: has another record than {parts[0].file}"
        if part.model != parts[0].model:
            yield f"{part.file}: is of another model than {parts[0].file}"
    if parts and (taken := [push for push in parts[0].pushes if push.decision == "taken"]):
        tokens = sum(push.tokens for push in taken)
        if any(abs(push.weight - push.tokens / tokens) > _WEIGHT_ERROR for push in taken):
            yield "its pushes are not weighed by their tokens"


def _span(first: int, last: int) -> str:
    return f"version {first}" if first == last else f"versions {first} to {last}"
