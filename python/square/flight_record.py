"""Where a process writes what its groups have called last: the flight recorder's files.

``SQUARE_FLIGHT_RECORD`` names a folder: there each group's record is written when the group is made, with its
first error, at its end, upon SIGUSR2, and before SIGTERM ends the process (unless the program has handlers of
its own). Without it the first error alone is written, to a folder of this user. ``off`` writes nothing.
"""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

VARIABLE = "SQUARE_FLIGHT_RECORD"
OFF = "off"
PATTERN = "flight-*.json"
# Of all processes together, in the folder that nobody has named; the oldest go when a process begins.
MAX_FILES = 256

_swept: set[Path] = set()


def settings() -> tuple[str, bool] | None:
    """The folder, and whether it was named. None: nothing is written."""
    named = os.environ.get(VARIABLE, "")
    if named == OFF:
        return None
    if named:
        with contextlib.suppress(OSError):  # said when it is written to
            Path(named).mkdir(parents=True, exist_ok=True)
        return named, True
    try:
        folder = default_folder()
    except OSError:  # the process has no temporary folder
        return None
    return (str(folder), False) if _make_private(folder) else None


def default_folder() -> Path:
    """Of this user alone, on this host."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return Path(runtime, "square", "flight")
    return Path(tempfile.gettempdir(), f"square-{os.geteuid()}", "flight")


def _make_private(folder: Path) -> bool:
    """False where it cannot be made, or somebody else can write to it."""
    try:
        for part in (folder.parent, folder):
            part.mkdir(mode=0o700, exist_ok=True)
            about = part.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
                return False
    except OSError:
        return False
    if folder not in _swept:
        _swept.add(folder)
        with contextlib.suppress(OSError):
            _sweep(folder)
    return True


def _sweep(folder: Path) -> None:
    """Makes room: other processes may sweep at the same time."""
    files = sorted(folder.glob(PATTERN), key=_written_at)
    for path in files[: max(0, len(files) - MAX_FILES)]:
        path.unlink(missing_ok=True)


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another process has just removed it
        return 0.0
