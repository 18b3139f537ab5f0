"""Parameter servers between sites that train on their own: the outer optimizer of Di-PS.

``OuterOptimizer`` is all of it in one process::

    outer = square.ps.OuterOptimizer(parameters, lr=0.7, momentum=0.8)
    report = outer.round([("site a", tokens_a, delta_a), ("site b", tokens_b, delta_b)])
    print(report.decisions, report.norm)
"""

from square._core import OuterOptimizer, OuterRound

__all__ = ["OuterOptimizer", "OuterRound"]
