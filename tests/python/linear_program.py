"""Equations (1) to (6) of the paper with node limits, written down a second time.

Straight from docs and formulas, variable by variable, for SciPy's HiGHS; shares nothing
with the library but the order of nodes and links.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

Link = tuple[str, str]

_EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass
class Multicast:
    """One collective: its weight, and the feasible paths to each destination."""

    weight: float
    paths: list[list[list[Link]]]  # [destination][path]
    as_unicasts: bool = False  # mcf: the flows to the destinations add up on a link


@dataclass
class Residual:
    """What is left, bits per second; infinite where there is no limit."""

    links: dict[Link, float]
    egress: dict[str, float]
    ingress: dict[str, float]


@dataclass
class _Rows:
    """a x <= b, row by row."""

    values: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)

    def add(self, entries: Sequence[tuple[int, float]], bound: float) -> None:
        for column, value in entries:
            self.values.append(value)
            self.rows.append(len(self.bounds))
            self.columns.append(column)
        self.bounds.append(bound)


def optimum_bps(multicasts: list[Multicast], residual: Residual, *, max_min: bool) -> float:
    """X of (6), or the sum of the f_i (1)."""
    scale = max([*residual.links.values(), 1e-30])
    rows = _Rows()
    columns = 1 + len(multicasts)  # X, then f_i
    loads: dict[Link, list[tuple[int, float]]] = {}
    for i, multicast in enumerate(multicasts):
        rate = 1 + i
        rows.add([(0, multicast.weight), (rate, -1.0)], 0.0)  # (6)
        effective: dict[Link, int] = {}
        for paths in multicast.paths:
            flows = range(columns, columns + len(paths))
            columns += len(paths)
            rows.add([(rate, 1.0), *((flow, -1.0) for flow in flows)], 0.0)  # (2)
            towards: dict[Link, list[tuple[int, float]]] = {}
            for flow, path in zip(flows, paths, strict=True):
                for link in path:
                    towards.setdefault(link, []).append((flow, 1.0))
            for link, entries in towards.items():
                if multicast.as_unicasts:
                    loads.setdefault(link, []).extend(entries)
                    continue
                if link not in effective:
                    effective[link] = columns
                    loads.setdefault(link, []).append((columns, 1.0))
                    columns += 1
                rows.add([*entries, (effective[link], -1.0)], 0.0)  # (3)
    _add_limits(rows, loads, residual, scale)
    gain = np.zeros(columns)
    if max_min:
        gain[0] = -1.0
    else:
        gain[1 : 1 + len(multicasts)] = -1.0
    limits = [(0.0, None)] * columns
    if not max_min:
        limits[0] = (0.0, 0.0)
    matrix = coo_array((rows.values, (rows.rows, rows.columns)), shape=(len(rows.bounds), columns))
    answer = linprog(
        gain, A_ub=matrix.tocsr(), b_ub=rows.bounds, bounds=limits, method="highs", options=_EXACT
    )
    assert answer.status == 0, answer.message
    return float(-answer.fun) * scale


def _add_limits(
    rows: _Rows, loads: dict[Link, list[tuple[int, float]]], residual: Residual, scale: float
) -> None:
    """(4), and what leaves and enters each node."""
    leaving: dict[str, list[tuple[int, float]]] = {}
    entering: dict[str, list[tuple[int, float]]] = {}
    for link, entries in loads.items():
        rows.add(entries, residual.links[link] / scale)
        leaving.setdefault(link[0], []).extend(entries)
        entering.setdefault(link[1], []).extend(entries)
    for by_node, limit in ((leaving, residual.egress), (entering, residual.ingress)):
        for node, entries in by_node.items():
            if np.isfinite(limit[node]):
                rows.add(entries, limit[node] / scale)
