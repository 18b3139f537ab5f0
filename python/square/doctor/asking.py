"""Asks an overlay how it is, also where nobody answers."""

from dataclasses import dataclass, field
from typing import Any

from square._core import examine_nodes, list_links
from square.doctor.controller_line import explain
from square.doctor.diagnosis import diagnose
from square.doctor.facts import MeasuredLink, Overlay
from square.doctor.finding import Finding, Severity
from square.doctor.rules import RULES, SECURITY_RULES
from square.errors import InvalidArgumentError, ResourceExhaustedError, SquareError
from square.identity import IdentitySource

DEFAULT_SECONDS = 10.0


@dataclass(frozen=True)
class Examination:
    """What was found, and in what."""

    findings: list[Finding] = field(default_factory=list)
    overlay: Overlay | None = None  # None: the controller did not answer

    @property
    def is_healthy(self) -> bool:
        """Nothing worse than a warning."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)

    def to_document(self) -> dict[str, Any]:
        """As docs/doctor.md has it."""
        nodes = self.overlay.nodes if self.overlay is not None else ()
        return {
            "format": "square.doctor/1",
            "healthy": self.is_healthy,
            "nodes": [
                {
                    "name": node.name,
                    "address": node.address,
                    "connected": node.is_connected,
                    "answered": node.report is not None,
                }
                for node in nodes
            ],
            "findings": [finding.to_document() for finding in self.findings],
        }


def examine(
    controller: str,
    identity: IdentitySource = None,
    timeout: float = DEFAULT_SECONDS,
    *,
    security: bool = False,
) -> Examination:
    """Has all nodes of the overlay look at themselves and at one another, and judges what they say.

    ``controller`` is host:port; with ``security`` it is judged by what lets others read, change or stop what
    is sent, alone. Blocks for ``timeout`` seconds and a few more at the most. A controller that does not
    answer is a finding, too. Raises ``InvalidArgumentError`` for an address that is none, and
    ``ResourceExhaustedError`` while many others ask.
    """
    try:
        found = examine_nodes(controller, identity, timeout)
    except (InvalidArgumentError, ResourceExhaustedError):
        raise
    except SquareError as error:
        return Examination([explain(controller, error)])
    overlay = Overlay.read(found, controller, _measured(controller, identity))
    return Examination(diagnose(overlay, SECURITY_RULES if security else RULES), overlay)


def _measured(controller: str, identity: IdentitySource) -> tuple[MeasuredLink, ...]:
    try:
        return MeasuredLink.read(list_links(controller, identity))
    except SquareError:
        return ()  # an older controller, or one that has just gone: the nodes' facts stand
