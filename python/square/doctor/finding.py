"""What a rule found."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    ERROR = "error"  # something does not work, or not as planned
    WARNING = "warning"  # it works, and may not for long
    HINT = "hint"  # it could be better


@dataclass(frozen=True)
class Finding:
    """One fault, told once, however many nodes see it."""

    severity: Severity
    rule: str  # which rule found it: "reach.refused"
    guilty: str  # "node a", "link a -> b", "port 10.0.0.3:7001 of node c", "controller"
    seen: str
    remedy: str

    def to_document(self) -> dict[str, Any]:
        return asdict(self)
