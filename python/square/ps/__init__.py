"""Parameter servers between sites that train on their own, after Di-PS: docs/parameter-servers.md.

A master, one or several servers, and a worker at each site::

    master = square.ps.Master("0.0.0.0:7000", identity=identity, servers=2)
    server = square.ps.Server("ctl:7000", "/data/snapshots", identity=identity)
    with square.ps.Worker(model, inner, master="ctl:7000", identity=identity, sync_every=64) as worker:
        for batch in batches:
            ...
            worker.consumed(batch.numel())
            inner.step()

``OuterOptimizer`` is what the servers calculate, in one process.
"""

from square._core import OuterOptimizer, OuterRound
from square.ps.master import Master
from square.ps.placement import Placement, place
from square.ps.server import Server
from square.ps.settings import Ewma, Nesterov
from square.ps.snapshot import RoundPush, Snapshot, read_model, read_snapshot
from square.ps.status import PartStatus, RoundStatus, ServerStatus, Status, WorkerStatus, ask
from square.ps.worker import Sync, Worker

__all__ = [
    "Ewma",
    "Master",
    "Nesterov",
    "OuterOptimizer",
    "OuterRound",
    "PartStatus",
    "Placement",
    "RoundPush",
    "RoundStatus",
    "Server",
    "ServerStatus",
    "Snapshot",
    "Status",
    "Sync",
    "Worker",
    "WorkerStatus",
    "ask",
    "place",
    "read_model",
    "read_snapshot",
]
