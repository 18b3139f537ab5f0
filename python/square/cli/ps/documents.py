"""What masters and snapshots say, as JSON has it."""

import dataclasses
import math
from typing import Any


def to_plain(value: Any) -> Any:
    """Dicts and lists; null for figures that are not finite, 16 hexadecimal digits for hashes, which are
    larger than many readers' numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_plain(dataclasses.asdict(value))
    if isinstance(value, dict):
        return {
            key: f"{one:016x}" if key == "hash" and isinstance(one, int) else to_plain(one)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
