"""A worker's own network: wires it, and reads what the kernel counted there."""

import json
from pathlib import Path

from square.run import namespaces
from square.run.protocol import Counted, LinkCounters, Wire

_SNMP_FILE = Path("/proc/self/net/snmp")


class Interfaces:
    """The interfaces that ``Wire`` asked for."""

    def __init__(self, wire: Wire) -> None:
        namespaces.run_batch("ip", wire.ip)
        namespaces.run_batch("tc", wire.tc)
        self._neighbours = wire.neighbours
        self._before = self._counters()

    def begin(self) -> None:
        """Counts from now on."""
        self._before = self._counters()

    def counted(self, run: int) -> Counted:
        links, segments = self._counters()
        links_before, segments_before = self._before
        differences = tuple(
            LinkCounters(
                self._neighbours[interface],
                *(now - then for now, then in zip(counts, links_before[interface], strict=True)),
            )
            for interface, counts in links.items()
        )
        return Counted(run, differences, segments - segments_before)

    def _counters(self) -> tuple[dict[str, tuple[int, int, int]], int]:
        """Bytes, packets and drops of each shaped interface, and TCP's retransmitted segments."""
        links = {
            qdisc["dev"]: (qdisc["bytes"], qdisc["packets"], qdisc["drops"])
            for qdisc in json.loads(namespaces.tc_json("qdisc", "show"))
            if qdisc["kind"] == "tbf" and qdisc["dev"] in self._neighbours
        }
        return links, _retransmitted_segments()


def _retransmitted_segments() -> int:
    lines = _SNMP_FILE.read_text(encoding="ascii").splitlines()
    names, values = (line.split() for line in lines if line.startswith("Tcp:"))
    return int(values[names.index("RetransSegs")])
