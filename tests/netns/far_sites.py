"""Sites with links of their own capacities and delays: `Sites`, wired by programs `tun_relay`."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Self

import square
from square.run import namespaces
from square.run.sites import Sites
from square.run.wiring import shaper

READY_SECONDS = 10.0


@dataclass(frozen=True)
class Line:
    """Between two sites, the same both ways; ``seconds`` is the delay of one direction."""

    bps: float
    seconds: float


class FarSites(Sites):
    """A context: ``lines`` has each pair of the names, in their order."""

    def __init__(self, relay: Path, names: list[str], lines: Mapping[tuple[str, str], Line]) -> None:
        unlinked = square.Topology()
        for name in names:
            unlinked.add_node(name)
        super().__init__(unlinked)
        self._relay, self._lines = relay, lines
        self._relays: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            for pair in combinations(self.names, 2):
                self._link(*pair)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        for process in self._relays:
            process.communicate(timeout=READY_SECONDS)
        self._relays.clear()
        super().close()

    def _link(self, one: str, other: str) -> None:
        line = self._lines[one, other]
        ends = [self.network(one).file, self.network(other).file]
        devices = [f"far{self.names.index(other)}", f"far{self.names.index(one)}"]
        process = subprocess.Popen(
            [str(self._relay), *ends, f"{line.seconds * 1e6:.0f}", "0", "1", *devices],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._relays.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", "it says why above"
        for own, peer, device in ((one, other, devices[0]), (other, one, devices[1])):
            route = f"route add {self.address_of(peer)}/32 dev {device} src {self.address_of(own)}"
            queue = f"qdisc add dev {device} root {shaper(line.bps)}"
            self.network(own).run(
                lambda route=route: namespaces.run_batch(
                    "ip", [f"{route} congctl {namespaces.CONGESTION_CONTROL}"]
                )
            )
            self.network(own).run(lambda queue=queue: namespaces.run_batch("tc", [queue]))
