"""Folders for as long as something runs."""

import tempfile

from square.errors import UnavailableError


def temporary_folder(prefix: str) -> "tempfile.TemporaryDirectory[str]":
    """A new folder whose name begins so. Raises ``UnavailableError`` where there is no place for it."""
    try:
        return tempfile.TemporaryDirectory(prefix=prefix)
    except OSError as error:
        raise UnavailableError(
            f"cannot make a temporary folder: {error}; set TMPDIR to a folder that this user can write to"
        ) from error
