"""What was measured, in a folder: written as it comes, so that a bench goes on where it was interrupted."""

import json
from collections.abc import Iterator
from pathlib import Path

from square.bench.measure import Key, Measurement
from square.errors import DataLossError

FILE = "results.jsonl"


class Results:
    def __init__(self, folder: Path) -> None:
        """Reads what is there. Raises ``DataLossError`` for a line that is no measurement, ``OSError``."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / FILE
        self._known: dict[Key, Measurement] = {}
        text = self._file.read_text(encoding="utf-8") if self._file.exists() else ""
        lines = text.split("\n")
        # The last has no end where the program was killed while it wrote.
        for number, line in enumerate(lines[:-1], start=1):
            try:
                measurement = Measurement.from_document(json.loads(line))
            except (ValueError, TypeError) as error:
                raise DataLossError(f"{self._file}, line {number}: no measurement: {error}") from error
            self._known[measurement.key] = measurement
        if lines[-1]:
            self._file.write_text("".join(f"{line}\n" for line in lines[:-1]), encoding="utf-8")

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self._known.values())

    def find(self, key: Key) -> Measurement | None:
        return self._known.get(key)

    def add(self, measurement: Measurement) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(measurement.to_document()) + "\n")
        self._known[measurement.key] = measurement
