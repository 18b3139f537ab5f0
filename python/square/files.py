"""Files that are written whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from square.errors import InvalidArgumentError


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Where the block shall write; it becomes ``file`` when the block is done, so that nobody
    reads half of it. A device, a pipe and what a symbolic link leads to are written in place:
    in their stead a file would be left.

    Raises ``InvalidArgumentError`` where it cannot be written.
    """
    in_place = file.is_symlink() or (file.exists() and not file.is_file())
    path = file if in_place else file.with_name(f".{file.name}.partial")
    try:
        yield path
        if not in_place:
            path.replace(file)
    except OSError as error:
        if not in_place:
            path.unlink(missing_ok=True)
        raise InvalidArgumentError(f"{file}: cannot be written: {error.strerror}") from None
