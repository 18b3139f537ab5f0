"""A server of ssh on the loopback, to which this user has a key: as good as another machine."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from commands import wait_until

PROGRAM = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
_PRIVILEGES = Path("/run/sshd")  # a server of root's keeps its unprivileged half there


@contextmanager
def running(folder: Path) -> Iterator[list[str]]:
    """Arguments of ssh that lead to it."""
    assert PROGRAM is not None
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    port = _free_port()
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "user.pub",
        "PasswordAuthentication": "no",
        "StrictModes": "no",  # the folder may be anybody's
        "UsePAM": "no",
        "PidFile": "none",
        "PermitRootLogin": "yes",
    }
    (folder / "config").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    if os.geteuid() == 0:
        _PRIVILEGES.mkdir(mode=0o755, exist_ok=True)
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([PROGRAM, "-D", "-e", "-f", folder / "config"], stderr=log)
    try:
        assert wait_until(lambda: _listens(port), 10), (folder / "log").read_text()
        yield [
            *("-p", str(port), "-i", str(folder / "user"), "-o", "IdentitiesOnly=yes"),
            *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"),
            "127.0.0.1",
        ]
    finally:
        server.terminate()
        server.wait(10)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
