"""A PostgreSQL server of a test's own, in a folder of its own, that is reached by a socket there alone."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROGRAMS = Path("/usr/lib/postgresql/15/bin")
_USER = "postgres"


def _run(folder: Path, *command: object) -> None:
    """As the package's user where this is root, which PostgreSQL refuses to be."""
    as_user = ["runuser", "-u", _USER, "--"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*as_user, *map(str, command)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def postgres() -> Iterator[str]:
    """Its address."""
    folder = Path(tempfile.mkdtemp(prefix="square-database-"))
    try:
        if os.geteuid() == 0:
            user = pwd.getpwnam(_USER)
            os.chown(folder, user.pw_uid, user.pw_gid)
        data = folder / "data"
        _run(folder, _PROGRAMS / "initdb", "-D", data, "-A", "trust", "-U", _USER, "--locale=C", "--no-sync")
        options = f"-k {folder} -c listen_addresses=''"
        log = folder / "log"
        _run(folder, _PROGRAMS / "pg_ctl", "-D", data, "-w", "-l", log, "-o", options, "start")
        try:
            yield f"postgresql:///postgres?host={folder}&user={_USER}"
        finally:
            _run(folder, _PROGRAMS / "pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
