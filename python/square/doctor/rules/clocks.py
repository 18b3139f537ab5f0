"""Wall clocks that differ."""

from collections.abc import Iterator
from statistics import median

from square.doctor.facts import Node, Overlay
from square.doctor.finding import Finding, Severity
from square.doctor.rules import words

# Nothing that runs hangs on the wall clock, but logs, certificates and people do.
WARNING_SECONDS = 1.0
ERROR_SECONDS = 30.0

_REMEDY = "set its clock: timedatectl set-ntp true, or chronyc makestep"


def clocks_differ(overlay: Overlay) -> Iterator[Finding]:
    """Against the controller's; where most differ from that alike, it is the one."""
    nodes = [node for node, _ in overlay.reports()]
    common = _common(nodes)
    if abs(common) > WARNING_SECONDS:
        yield _finding("controller", -common, "most nodes'")
    for node in nodes:
        ahead = node.clock_ahead_seconds - common
        if abs(ahead) - node.clock_doubt_seconds > WARNING_SECONDS:
            yield _finding(f"node {node.name}", ahead, "most nodes'" if common else "the controller's")


def _common(nodes: list[Node]) -> float:
    """How far most are ahead of the controller; 0 where they are not alike."""
    if len(nodes) < 2:
        return 0.0
    middle = median(node.clock_ahead_seconds for node in nodes)
    alike = [
        node
        for node in nodes
        if abs(node.clock_ahead_seconds - middle) <= WARNING_SECONDS + node.clock_doubt_seconds
    ]
    is_off = all(abs(middle) > WARNING_SECONDS + node.clock_doubt_seconds for node in alike)
    return middle if is_off and 2 * len(alike) > len(nodes) else 0.0


def _finding(guilty: str, ahead: float, whose: str) -> Finding:
    severity = Severity.ERROR if abs(ahead) > ERROR_SECONDS else Severity.WARNING
    seen = f"its clock is {words.time(ahead)} {'ahead of' if ahead > 0 else 'behind'} {whose}"
    return Finding(severity, "clock.differs", guilty, seen, _REMEDY)
