"""A parameter server."""

import os
import socket
from pathlib import Path
from typing import Self

from square import _core
from square.identity import IdentitySource
from square.ps.joining import bind_address, wait_for_master
from square.ps.master import Seconds, seconds


class Server:
    """Keeps a shard of the model, does the outer optimizer's step on it, and keeps snapshots.

    ``snapshots``: a folder of its own. After each round the shard is written there, the newest ``keep``
    stay, and a server that is started again on the folder goes on. ``name``: of its own, and the same each
    time; without one it is made of the host's name and the folder's. ``threads`` calculate, 0 for one a
    processor. ``capacity``: what it can take in, in bits per second; shards are in proportion, where all
    servers say one.
    """

    def __init__(
        self,
        master: str,
        snapshots: "str | os.PathLike[str]",
        *,
        name: str = "",
        keep: int = 3,
        identity: IdentitySource = None,
        insecure: bool = False,
        bind: str = "",
        advertise: str = "",
        threads: int = 0,
        capacity: float | None = None,
        timeout: Seconds = 30.0,
    ) -> None:
        folder = Path(snapshots).absolute()
        self.name = name or f"{socket.gethostname()}-{folder.name}"
        wait_for_master(master, identity, seconds(timeout))
        self._server = _core.ParameterServer(
            name=self.name,
            master=master,
            identity=identity,
            insecure=insecure,
            bind_address=bind_address(master, bind),
            advertised_address=advertise,
            connect_timeout=seconds(timeout),
            snapshots=str(folder),
            keep=keep,
            threads=threads,
            capacity_bps=capacity or 0.0,
        )

    @property
    def version(self) -> int:
        """Of its shard; 0 before there is a model."""
        return self._server.version

    @property
    def serves(self) -> bool:
        """It has a shard, and the master knows it."""
        return self._server.serves

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Until it has failed, which raises why, or was stopped; False where the time is over before."""
        left = None if timeout is None else seconds(timeout)
        while left is None or left > 0:
            slice_seconds = 0.2 if left is None else min(0.2, left)
            if self._server.wait_for_end(slice_seconds):
                self._server.check()
                return True
            left = None if left is None else left - slice_seconds
        return False

    def stop(self) -> None:
        self._server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
