"""Releases that differ."""

from collections import Counter
from collections.abc import Iterator

from square.doctor.facts import Overlay
from square.doctor.finding import Finding, Severity
from square.doctor.rules import words


def versions_differ(overlay: Overlay) -> Iterator[Finding]:
    """Those who differ from most; where two are as many, from the controller."""
    spoken = [(report.protocol, report.version) for _, report in overlay.reports()]
    if not spoken:
        return
    counted = Counter(spoken)
    most = max(counted, key=lambda kind: (counted[kind], kind[1] == overlay.version))
    for kind in counted:
        protocol, version = kind
        if kind == most:
            continue
        named = [node.name for node, report in overlay.reports() if (report.protocol, report.version) == kind]
        breaks = protocol != most[0]
        yield Finding(
            Severity.ERROR if breaks else Severity.WARNING,
            "version.protocol" if breaks else "version.release",
            words.nodes(named),
            f"{words.plural(named, 'runs', 'run')} Square {version} (protocol {protocol}), "
            f"most run {most[1]} (protocol {most[0]})"
            + (": links between them are refused" if breaks else ""),
            f"install Square {most[1]} there, and start {words.plural(named, 'it', 'them')} again",
        )
    if overlay.version and all(version != overlay.version for _, version in counted):
        yield Finding(
            Severity.WARNING,
            "version.controller",
            "controller",
            f"it runs Square {overlay.version}, the nodes run {most[1]}",
            f"install the same release for all; start the controller with Square {most[1]}",
        )
