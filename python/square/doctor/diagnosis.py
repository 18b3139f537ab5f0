"""All rules, one after the other."""

from square.doctor.facts import Overlay
from square.doctor.finding import Finding, Severity
from square.doctor.rules import RULES

_ORDER = list(Severity)


def diagnose(overlay: Overlay) -> list[Finding]:
    """What is wrong, the worst first. Looks at nothing but the facts."""
    found = [finding for rule in RULES for finding in rule(overlay)]
    return sorted(found, key=lambda finding: _ORDER.index(finding.severity))
