"""How findings name things."""

from collections.abc import Iterable, Sequence

MAX_NAMES = 5


def names(all_names: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; of many the first and how many more."""
    listed = sorted(set(all_names))
    if len(listed) > MAX_NAMES:
        return f"{', '.join(listed[:MAX_NAMES])} and {len(listed) - MAX_NAMES} more"
    return " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)


def nodes(all_names: Sequence[str]) -> str:
    return f"node{'s' if len(set(all_names)) > 1 else ''} {names(all_names)}"


def plural(all_names: Sequence[str], one: str, many: str) -> str:
    return many if len(set(all_names)) > 1 else one


def rate(rate_bps: float) -> str:
    return f"{rate_bps / 1e6:.4g} Mbit/s"


def size(size_bytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.4g} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.4g} GiB"


def time(seconds: float) -> str:
    seconds = abs(seconds)
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} minutes" if seconds < 7200 else f"{seconds / 3600:.3g} hours"
