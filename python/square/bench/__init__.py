"""The paper's figures, measured on this machine: `square bench`; docs/evaluation.md.

``figures`` says what each figure is, ``measure`` plans or runs its points, ``results`` keeps what was
measured, ``report`` shows it.
"""

from square.bench.figures import FIGURES, Figure, Point, Size
from square.bench.measure import Measurement, measure
from square.bench.results import Results

__all__ = ["FIGURES", "Figure", "Measurement", "Point", "Results", "Size", "measure"]
