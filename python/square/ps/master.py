"""The master of parameter servers."""

import os
from datetime import timedelta
from typing import Literal, Self

from square import _core
from square.identity import IdentitySource
from square.ps.settings import Ewma, Nesterov, outer_options
from square.ps.status import Status

Seconds = float | timedelta


_USUAL_STEP = Nesterov()
_USUAL_PENALTY = Ewma()


def seconds(time: Seconds) -> float:
    return time.total_seconds() if isinstance(time, timedelta) else float(time)


class Master:
    """Decides who takes part, which pushes make the next version of the model, and when it counts.

    It has no training data and keeps nothing: one that is started again at the same address learns from
    its servers. ``address``: where it listens; any but a loopback one needs an ``identity``, that of a
    controller, or ``insecure=True``. ``overlay``: a topology or scenario (an object, or a file) that the
    data flow is planned over; without one, and without the address of a ``controller``, members form a full
    mesh of links that are not known. Without a ``controller`` the master brings one, at the next port of
    its host.

    ``servers``: how many share a new model. Those that come later get their part of it, unless
    ``move_shards`` is False: then they stand by. A round begins with the ``quorum``-th push, or one of every
    worker, and takes what else comes within ``grace`` seconds; "auto" is a twentieth of the time between
    two pushes of a worker. ``push``: "bf16" or "float32" deltas, or "parameters" in float32, from which
    the servers' current ones are subtracted, as in the paper. ``clip``: the longest average that is
    stepped with, None for any. ``chunks``: parts of the data set to lease to workers. ``max_staleness``:
    pushes that began more versions ago are refused. A member that is silent for ``lease`` seconds is not
    there any more.
    """

    def __init__(
        self,
        address: str = "127.0.0.1:0",
        *,
        advertise: str = "",
        identity: IdentitySource = None,
        insecure: bool = False,
        controller: str = "",
        overlay: "str | os.PathLike[str] | _core.Topology | _core.Scenario | None" = None,
        servers: int = 1,
        quorum: int = 1,
        grace: "Seconds | Literal['auto']" = "auto",
        outer: Nesterov = _USUAL_STEP,
        push: Literal["bf16", "float32", "parameters"] = "bf16",
        clip: float | None = 1.0,
        clip_scope: str = "global",
        penalty: Ewma | None = _USUAL_PENALTY,
        norms: str = "root",
        chunks: int = 0,
        max_staleness: int | None = None,
        move_shards: bool = True,
        lease: Seconds = 5.0,
        step_timeout: Seconds = 600.0,
    ) -> None:
        if push not in ("bf16", "float32", "parameters"):
            raise ValueError(f'push is "bf16", "float32" or "parameters", not {push!r}')
        if isinstance(grace, str) and grace != "auto":
            raise ValueError(f'grace is a number of seconds or "auto", not {grace!r}')
        self._master = _core.ParameterMaster(
            bind_address=address,
            advertised_address=advertise,
            identity=identity,
            insecure=insecure,
            controller=controller,
            scenario=_scenario(overlay),
            outer=outer_options(outer, clip, clip_scope, penalty, norms),
            servers=servers,
            quorum=quorum,
            grace=None if isinstance(grace, str) else seconds(grace),
            basis="current" if push == "parameters" else "base",
            bfloat16=push == "bf16",
            chunks=chunks,
            max_staleness=max_staleness,
            moves_shards=move_shards,
            lease=seconds(lease),
            step_timeout=seconds(step_timeout),
        )

    @property
    def address(self) -> str:
        """What servers and workers are given."""
        return self._master.address

    @property
    def controller(self) -> str:
        """The controller of the overlay: for `square top` and `square doctor`."""
        return self._master.controller

    def status(self) -> Status:
        return Status.read(self._master.status())

    def stop(self) -> None:
        """Members look for a master at its address from now on, and workers train on meanwhile."""
        self._master.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _scenario(
    overlay: "str | os.PathLike[str] | _core.Topology | _core.Scenario | None",
) -> "_core.Scenario | None":
    if overlay is None or isinstance(overlay, _core.Scenario):
        return overlay
    if isinstance(overlay, _core.Topology):
        return _core.Scenario(overlay, name="overlay")
    path = os.fspath(overlay)
    if path.endswith(".toml"):
        return _core.Scenario.read(path)
    return _core.Scenario(_core.Topology.read(path), name="overlay")
