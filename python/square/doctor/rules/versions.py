"""Releases that differ."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from square.doctor.facts import Overlay, Report
from square.doctor.finding import Finding, Severity
from square.doctor.rules import words


class Kind(NamedTuple):
    """A release, and the protocols of links that it speaks."""

    oldest: int | None
    newest: int | None
    version: str

    def meets(self, other: "Kind") -> bool:
        """Whether nodes of the two accept links with one another."""
        if None in (self.newest, other.newest):
            return self.newest == other.newest
        return max(self.oldest or 0, other.oldest or 0) <= min(self.newest or 0, other.newest or 0)


def _kind(report: Report) -> Kind:
    oldest = report.protocol if report.oldest_protocol is None else report.oldest_protocol
    return Kind(oldest, report.protocol, report.version)


def versions_differ(overlay: Overlay) -> Iterator[Finding]:
    """Those who differ from most; where two are as many, from the controller."""
    counted = Counter(_kind(report) for _, report in overlay.reports())
    if not counted:
        return
    most = max(counted, key=lambda kind: (counted[kind], kind.version == overlay.version))
    for kind in counted:
        if kind == most:
            continue
        named = [node.name for node, report in overlay.reports() if _kind(report) == kind]
        breaks = not kind.meets(most)
        yield Finding(
            Severity.ERROR if breaks else Severity.WARNING,
            "version.protocol" if breaks else "version.release",
            words.nodes(named),
            f"{words.plural(named, 'runs', 'run')} Square {kind.version} (protocol {kind.newest}), "
            f"most run {most.version} (protocol {most.newest})"
            + (": links between them are refused" if breaks else ""),
            f"install Square {most.version} there, and start {words.plural(named, 'it', 'them')} again",
        )
    if overlay.version and all(kind.version != overlay.version for kind in counted):
        yield Finding(
            Severity.WARNING,
            "version.controller",
            "controller",
            f"it runs Square {overlay.version}, the nodes run {most.version}",
            f"install the same release for all; start the controller with Square {most.version}",
        )
