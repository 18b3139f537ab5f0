"""Eager updates: the others' changes come an inner phase later, the member's own at once.

Kale et al., arXiv:2502.12996. At the end of phase t member m knows its own change D_m(t), and the average
D(t-1) of what all changed in the phase before, w_m D_m(t-1) of which was its own. Its outer optimizer steps
by

    D(t-1) + w_m (D_m(t) - D_m(t-1))

For optimizers that are linear, as Nesterov is, that is the same as a step by D(t-1) of what all share, on all
members alike, and on top of it the last step of an optimizer that was given w_m D_m(1), ..., w_m D_m(t)
alone. So it is done here: what all share stays the same bits everywhere, for members that join or miss a
commit.
"""

from typing import Any

import torch

from square.diloco.fragments import Fragment, local
from square.diloco.outer import Outer


class Ahead:
    """One fragment, where this member is ahead of what all share."""

    def __init__(self, fragment: Fragment, outer: Outer) -> None:
        self._fragment = fragment
        self.start = fragment.base.clone()  # of the phase
        self._start_views = _like(self.start, fragment)
        self._own = torch.zeros_like(self.start)  # changed here, and not committed
        self._step = torch.zeros_like(self.start)
        self._step_views = _like(self._step, fragment)
        self._optimizer = outer(self._step_views)

    def begin_at_base(self) -> None:
        """The parameters are what all share: nothing has changed since."""
        self.start.copy_(self._fragment.base)
        self._own.zero_()

    @torch.no_grad()
    def measure(self) -> bool:
        """The fragment's change since the phase began, with that of a round that was lost; is it finite?"""
        is_finite: bool = self._fragment.measure(self._start_views)
        if is_finite:
            self.start.sub_(self._fragment.change)
            self._own.add_(self._fragment.change)
            self._fragment.change.copy_(self._own)
        return is_finite

    def origin(self) -> Any:
        """From where all that is not committed here changed, as a copy."""
        return self.start + self._own

    @torch.no_grad()
    def go(self, part: float) -> None:
        """Begins the next phase where the others would with this part of the own change, if they had it."""
        self._step.zero_()
        own = self._own * part
        for view, gradient in zip(self._step_views, _like(own, self._fragment), strict=True):
            view.grad = gradient
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        torch.add(self._fragment.base, self._step, out=self.start)
        self.restore()

    @torch.no_grad()
    def restore(self) -> None:
        """The parameters become what they were when the phase began."""
        for view, parameter in zip(self._start_views, self._fragment.parameters, strict=True):
            local(parameter).copy_(view)

    def commit(self) -> None:
        """All have the own change."""
        self._own.zero_()


def _like(flat: Any, fragment: Fragment) -> list[Any]:
    pieces = flat.split([view.numel() for view in fragment.base_views])
    return [piece.view(view.shape) for piece, view in zip(pieces, fragment.base_views, strict=True)]
