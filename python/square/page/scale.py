"""Where an axis has its ticks, and what stands there."""

import math

# Steps of time that people count in; longer ones are hours.
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)
HOUR = 3600
# With less in the axis ticks are seconds, with more minutes.
MINUTES_FROM = 120.0


def ticks(high: float, wanted: int) -> list[float]:
    """From zero to the first that is not below ``high``, about so many; round in decimals."""
    if high <= 0:
        return [0.0, 1.0]
    step = _round_step(high / wanted)
    return [_exact(number * step) for number in range(math.ceil(_exact(high / step)) + 1)]


def time_ticks(first: float, last: float, wanted: int) -> list[float]:
    """Those within, in seconds."""
    rough = (last - first) / wanted
    if rough <= 0:
        return [first]
    if rough < 1:
        step = _round_step(rough)
    elif rough <= _TIME_STEPS[-1]:
        step = next(step for step in _TIME_STEPS if step >= rough)
    else:
        step = HOUR * max(_round_step(rough / HOUR), 1.0)
    return [_exact(number * step) for number in range(math.ceil(first / step), math.floor(last / step) + 1)]


def time_label(seconds: float, last: float) -> str:
    """As `40 s`; on an axis that is longer, as `2:30` or `1:05:00`."""
    if last <= MINUTES_FROM:
        return f"{seconds:g} s"
    sign, whole = ("-" if seconds < 0 else ""), abs(round(seconds))
    if last < HOUR:
        return f"{sign}{whole // 60}:{whole % 60:02d}"
    return f"{sign}{whole // HOUR}:{whole % HOUR // 60:02d}:{whole % 60:02d}"


def _round_step(rough: float) -> float:
    """The next of 1, 2, 2.5 and 5 with any number of zeros."""
    size = 10.0 ** math.floor(math.log10(rough))
    return next(_exact(digit * size) for digit in (1, 2, 2.5, 5, 10) if digit * size >= rough * (1 - 1e-9))


def _exact(value: float) -> float:
    """Without what binary fractions leave behind the twelfth digit."""
    return float(f"{value:.12g}")
