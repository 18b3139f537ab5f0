"""The paper's figures and what goes beyond them, measured on this machine: `square bench`.
docs/evaluation.md has what they are and what they came to.

``figures`` says what each figure is, ``measure`` plans or runs its points, ``live`` has the experiments on
an overlay that changes, ``results`` keeps what was measured, ``session`` goes through what is asked for,
``report`` shows it.
"""

from square.bench.figures import FIGURES, PLAN, Figure, Point, Size
from square.bench.live import EXPERIMENTS, Course, Experiment
from square.bench.measure import Measurement, measure, together
from square.bench.session import Found, Session

__all__ = [
    "EXPERIMENTS",
    "FIGURES",
    "PLAN",
    "Course",
    "Experiment",
    "Figure",
    "Found",
    "Measurement",
    "Point",
    "Session",
    "Size",
    "measure",
    "together",
]
