"""Two network namespaces with delay and loss between them, by the program `tun_relay`."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from square.run import namespaces
from square.run.namespaces import Namespace

READY_SECONDS = 10.0
LEFT_ADDRESS = "10.2.0.1"
RIGHT_ADDRESS = "10.2.0.2"
_DEVICE = "delay"


@dataclass(frozen=True)
class Counts:
    """What one direction did. ``late``: packets more than 0.1 ms after their time."""

    forwarded: int
    lost: int
    late: int
    latest_us: int


class DelayedLink:
    """A context: `left` and `right` are networks of one interface each, to the other.

    ``seconds`` is the delay of one direction, ``loss`` the part of packets that never arrive,
    drawn from ``seed``. When it ends, `forth` (left to right) and `back` say what was.
    """

    def __init__(self, relay: Path, seconds: float, loss: float = 0.0, seed: int = 1) -> None:
        self._words = [str(relay), f"{seconds * 1e6:.0f}", repr(loss), str(seed)]
        self.forth: Counts | None = None
        self.back: Counts | None = None

    def __enter__(self) -> "DelayedLink":
        self.left, self.right = Namespace(), Namespace()
        program, *rest = self._words
        self._process = subprocess.Popen(
            [program, self.left.file, self.right.file, *rest],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            self.__exit__(None, None, None)
            raise RuntimeError(f"{program} did not start; it says why above")
        _configure(self.left, LEFT_ADDRESS, RIGHT_ADDRESS)
        _configure(self.right, RIGHT_ADDRESS, LEFT_ADDRESS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        said, _ = self._process.communicate(timeout=READY_SECONDS)
        if said:
            counts: dict[str, Any] = json.loads(said)
            self.forth, self.back = Counts(**counts["forth"]), Counts(**counts["back"])
        self.left.close()
        self.right.close()


def _configure(network: Namespace, own: str, other: str) -> None:
    lines = [
        "link set lo up",
        f"address add {own}/32 dev lo",
        f"route add {other}/32 dev {_DEVICE} src {own} congctl {namespaces.CONGESTION_CONTROL}",
    ]
    network.run(lambda: namespaces.run_batch("ip", lines))
