"""What a master's outer optimizer does."""

from dataclasses import dataclass

from square import _core


@dataclass(frozen=True)
class Nesterov:
    """The step: ``delay`` above 1 is delayed Nesterov, whose momentum changes every ``delay``-th round only.

    ``delay_share``, from 0 to 1 / ``delay``, is the part of the momentum's step that every round does.
    """

    lr: float = 0.7
    momentum: float = 0.8
    delay: int = 1
    delay_share: float = 0.0


@dataclass(frozen=True)
class Ewma:
    """Which pushes are outliers: those whose norm is ``beta`` times farther above the mean than usual.

    Mean and deviation move by ``alpha`` with each push, once the first ``warmup`` pushes of a worker are
    measured; "usual" is the largest score of the last ``window`` pushes, and at least one deviation.
    """

    alpha: float = 0.02
    beta: float = 3.0
    warmup: int = 120
    window: int = 1024


def outer_options(
    outer: Nesterov, clip: float | None, clip_scope: str, penalty: Ewma | None, norms: str
) -> _core.OuterOptions:
    """All of it, checked. Raises InvalidArgumentError."""
    return _core.OuterOptions(
        lr=outer.lr,
        momentum=outer.momentum,
        delay=outer.delay,
        delay_share=outer.delay_share,
        clip=clip,
        clip_scope=clip_scope,
        penalty=None if penalty is None else (penalty.alpha, penalty.beta, penalty.warmup, penalty.window),
        norms=norms,
    )
