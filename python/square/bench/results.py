"""What was measured, in a folder: written as it comes, so that a bench goes on where it was interrupted."""

import json
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from square.bench.live.course import Course
from square.bench.measure import Measurement
from square.errors import DataLossError


class Kept(Protocol):
    @property
    def key(self) -> Hashable: ...
    def to_document(self) -> dict[str, Any]: ...


T = TypeVar("T", bound=Kept)


class Results(Generic[T]):
    """A file with a line of JSON for each."""

    def __init__(self, file: Path, read: Callable[[dict[str, Any]], T]) -> None:
        """Reads what is there. Raises ``DataLossError`` for a line that is no result, ``OSError``."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file
        self._known: dict[Hashable, T] = {}
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        lines = text.split("\n")
        # The last has no end where the program was killed while it wrote.
        for number, line in enumerate(lines[:-1], start=1):
            try:
                found = read(json.loads(line))
            except (ValueError, TypeError, KeyError) as error:
                raise DataLossError(f"{file}, line {number}: no result of a bench: {error}") from error
            self._known[found.key] = found
        if lines[-1]:
            file.write_text("".join(f"{line}\n" for line in lines[:-1]), encoding="utf-8")

    def __iter__(self) -> Iterator[T]:
        return iter(self._known.values())

    def find(self, key: Hashable) -> T | None:
        return self._known.get(key)

    def get(self, key: Hashable) -> T:
        return self._known[key]

    def add(self, result: T) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result.to_document()) + "\n")
        self._known[result.key] = result


def measurements(folder: Path) -> Results[Measurement]:
    return Results(folder / "results.jsonl", Measurement.from_document)


def courses(folder: Path) -> Results[Course]:
    return Results(folder / "courses.jsonl", Course.from_document)
