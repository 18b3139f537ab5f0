"""JSON and files that commands write, and texts that they read."""

import json
import sys
from pathlib import Path
from typing import Any

from square import files
from square.errors import InvalidArgumentError, NotFoundError


def write_file(file: Path, document: str) -> None:
    with files.replacing(file) as path:
        path.write_text(document + "\n", encoding="utf-8")


def check_writable(file: Path | None) -> None:
    """Says before a long run what would fail after it."""
    if file is None:
        return
    if file.is_dir():
        raise InvalidArgumentError(f"{file}: is a directory; --output takes a file")
    if not file.absolute().parent.is_dir():
        raise NotFoundError(f"{file.parent}: there is no such directory to write {file.name} in")


def to_text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)


def print_line(document: dict[str, Any]) -> None:
    """One line of JSON, at once: somebody may wait for it."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFoundError(f"{file}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{file}: cannot be read: {error}") from None
