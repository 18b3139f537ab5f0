"""Pictures of plans. Needs matplotlib: ``pip install "square[plot]"``."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from square._core import Plan
from square.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".pdf", ".png", ".svg")


def plot_plan(plan: Plan, file: str | os.PathLike[str] | None = None) -> "Figure":
    """Draws the overlay of a plan with what its streams put on links and nodes.

    A link's width is its load, its colour the used share of its capacity; both directions
    are drawn apart, each on the right of its way. A ring around a node is the used share of
    its limits. The same plan gives the same picture. With ``file`` it is also written
    there, as PNG, SVG or PDF by the ending. Every call makes a figure of its own, which
    pyplot does not know.

    Raises ``FailedPreconditionError`` without matplotlib, ``InvalidArgumentError`` for
    another ending or a file that cannot be written, ``NotFoundError`` where its directory is
    not there.
    """
    if file is None:
        check_matplotlib()
    else:
        check_plot(file)
    from square.viz.picture import draw, write

    figure = draw(plan)
    if file is not None:
        write(figure, Path(file))
    return figure


def check_plot(file: str | os.PathLike[str]) -> None:
    """Says before a plan is made what would keep it from being drawn. Raises as plot_plan."""
    path = Path(file)
    if path.suffix.lower() not in FORMATS:
        raise InvalidArgumentError(f"{path}: a picture's name ends in {', '.join(FORMATS)}")
    if path.is_dir():
        raise InvalidArgumentError(f"{path}: is a directory; a picture needs a file")
    if not path.absolute().parent.is_dir():
        raise NotFoundError(f"{path.parent}: there is no such directory to write {path.name} in")
    check_matplotlib()


def check_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise FailedPreconditionError('pictures need matplotlib: pip install "square[plot]"')
