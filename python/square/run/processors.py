"""How busy this machine is: a network that is emulated on a full one is not what limits."""

from pathlib import Path

# Busier than this, and it may be the machine that limits.
FULL = 0.9


class ProcessorUse:
    """Of all processors, from when it was made."""

    def __init__(self) -> None:
        self._before = _ticks()

    def busy(self) -> float:
        """The part that was used so far, 0 to 1."""
        used, passed = (now - then for now, then in zip(_ticks(), self._before, strict=True))
        return used / passed if passed > 0 else 0.0


def _ticks() -> tuple[int, int]:
    """Since the machine started: what was used, and all of it."""
    first = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0]
    user, nice, system, idle, waiting, *others = (int(word) for word in first.split()[1:9])
    used = user + nice + system + sum(others)
    return used, used + idle + waiting
