"""All rules, one after the other."""

from square.doctor.facts import Overlay
from square.doctor.finding import Finding, Severity
from square.doctor.rules import RULES, Rule

_ORDER = list(Severity)


def diagnose(overlay: Overlay, rules: tuple[Rule, ...] = RULES) -> list[Finding]:
    """What is wrong, the worst first. Looks at nothing but the facts."""
    found = [finding for rule in rules for finding in rule(overlay)]
    return sorted(found, key=lambda finding: _ORDER.index(finding.severity))
