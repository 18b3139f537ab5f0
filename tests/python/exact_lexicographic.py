"""Lexicographic max-min over any linear program, with SciPy's HiGHS.

Knows nothing of networks and shares nothing with the library: a level is maximised, the rates
that cannot exceed it are frozen, the others go on; nothing is ever taken away from the program.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.optimize import OptimizeResult, linprog
from scipy.sparse import coo_array, csr_array, vstack

Entries = Iterable[tuple[int, float]]
Floats = npt.NDArray[np.float64]

# Of numbers around 1: every program here is scaled to that.
_TOLERANCE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# The duals of a level sum to one. A rate with a smaller share of it than this is frozen in a
# later round at the same level if it must be, so none is frozen by noise.
_SURE_DUAL = 1e-4
# What is fixed by one program is asked of the next with this much less, so that the next is
# feasible in floating point.
_SLACK = 1e-9
# And where HiGHS finds no answer all the same, for its tolerance is not far from that: still far
# less than what tests compare by.
_MORE_SLACK = (10 * _SLACK, 100 * _SLACK)
# What frozen rates may gain in the program that confirms them, relative to the largest rate in
# reach: the slack above, times what one rate may gain by another's loss.
_CONFIRMED = 1e-6


class OracleError(Exception):
    """HiGHS found no optimum, or contradicts itself: not a verdict about the library."""


@dataclass
class _Rows:
    """Rows of a sparse matrix with one number each."""

    values: list[Floats] = field(default_factory=list)
    rows: list[npt.NDArray[np.int64]] = field(default_factory=list)
    columns: list[npt.NDArray[np.int64]] = field(default_factory=list)
    sides: list[Floats] = field(default_factory=list)
    count: int = 0

    def add(self, entries: Entries, side: float) -> None:
        pairs = list(entries)
        self.add_block(
            np.zeros(len(pairs), dtype=np.int64),
            np.array([column for column, _ in pairs], dtype=np.int64),
            np.array([value for _, value in pairs], dtype=np.float64),
            np.array([side]),
        )

    def add_block(
        self,
        rows: npt.NDArray[np.int64],
        columns: npt.NDArray[np.int64],
        values: Floats,
        sides: Floats,
    ) -> None:
        """Rows counted from zero within the block."""
        self.rows.append(rows + self.count)
        self.columns.append(columns)
        self.values.append(values)
        self.sides.append(sides)
        self.count += len(sides)

    def matrix(self, columns: int) -> csr_array | None:
        if self.count == 0:
            return None
        indices = (np.concatenate(self.rows), np.concatenate(self.columns))
        return coo_array((np.concatenate(self.values), indices), shape=(self.count, columns)).tocsr()

    def right_side(self) -> Floats | None:
        return np.concatenate(self.sides) if self.count else None


class Program:
    """Columns >= 0, rows `at_most` and `equal`."""

    def __init__(self) -> None:
        self.columns = 0
        self.at_most = _Rows()
        self.equal = _Rows()

    def add_columns(self, count: int = 1) -> int:
        """The first of `count` new columns."""
        first = self.columns
        self.columns += count
        return first


@dataclass(frozen=True)
class Goal:
    """A rate: its column, and the weight that its level counts by."""

    column: int
    weight: float


def solve(
    gain: Floats,
    at_most: tuple[csr_array | None, Floats | None],
    equal: tuple[csr_array | None, Floats | None],
    bounds: Floats,
) -> OptimizeResult:
    """Maximises; with presolve, and without it where that fails."""
    for presolve in (True, False):
        answer = linprog(
            -gain,
            A_ub=at_most[0],
            b_ub=at_most[1],
            A_eq=equal[0],
            b_eq=equal[1],
            bounds=bounds,
            method="highs-ds",
            options={**_TOLERANCE, "presolve": presolve},
        )
        if answer.status == 0:
            return answer
    raise OracleError(f"HiGHS: {answer.message}")


class _Solver:
    """One program, built once; the levels change bounds and a few rows."""

    def __init__(self, program: Program, goals: Sequence[Goal]) -> None:
        self.goals = goals
        self.level = program.columns  # the column of t
        self.width = program.columns + 1
        self.base = program.at_most.matrix(self.width)
        self.base_side = program.at_most.right_side()
        self.equal = (program.equal.matrix(self.width), program.equal.right_side())
        self.floors = np.zeros(self.width)

    def bounds(self, *, free_level: bool) -> Floats:
        result = np.empty((self.width, 2))
        result[:, 0] = self.floors
        result[:, 1] = np.inf
        result[self.level] = (-np.inf, np.inf) if free_level else (0.0, 0.0)
        return result

    def with_rows(self, rows: _Rows) -> tuple[csr_array | None, Floats | None]:
        extra, side = rows.matrix(self.width), rows.right_side()
        if self.base is None or self.base_side is None or extra is None or side is None:
            return (extra, side) if self.base is None else (self.base, self.base_side)
        return vstack([self.base, extra], format="csr"), np.concatenate([self.base_side, side])

    def highest(self, active: Sequence[int]) -> tuple[float, list[int]]:
        """The level that all of `active` reach, and those that a positive dual holds there."""
        rows = _Rows()
        for number in active:
            goal = self.goals[number]
            rows.add([(self.level, goal.weight), (goal.column, -1.0)], 0.0)
        gain = np.zeros(self.width)
        gain[self.level] = 1.0
        answer = solve(gain, self.with_rows(rows), self.equal, self.bounds(free_level=True))
        duals = -answer.ineqlin.marginals[-len(active) :]
        held = [
            number
            for number, dual in zip(active, duals, strict=True)
            if dual * self.goals[number].weight > _SURE_DUAL
        ]
        if not held:
            raise OracleError(f"no dual of the level is positive: {duals}")
        return max(float(answer.x[self.level]), 0.0), held

    def raise_floor(self, number: int, level: float) -> None:
        goal = self.goals[number]
        self.floors[goal.column] = goal.weight * level * (1 - _SLACK)

    def most_gained(self, numbers: Sequence[int], level: float) -> float:
        """By how much the levels of `numbers` together can exceed theirs, under the floors."""
        gain = np.zeros(self.width)
        for number in numbers:
            gain[self.goals[number].column] = 1.0 / self.goals[number].weight
        answer = solve(gain, self.with_rows(_Rows()), self.equal, self.bounds(free_level=False))
        return float(-answer.fun) - len(numbers) * level


def lexicographic(program: Program, goals: Sequence[Goal]) -> list[float]:
    """The rates of the lexicographic max-min of rate / weight, by goal.

    Freezes by positive duals (Ogryczak and Sliwinski); a second program confirms that what was
    frozen can indeed not grow while every other rate keeps its level.
    """
    solver = _Solver(program, goals)
    rates = [0.0] * len(goals)
    active = list(range(len(goals)))
    while active:
        level, held = solver.highest(active)
        for number in active:
            solver.raise_floor(number, level)
        if len(goals) > 1:
            gained = solver.most_gained(held, level)
            if gained > _CONFIRMED * max(level, 1e-3):
                raise OracleError(f"rates {held} were frozen at {level} and can gain {gained}")
        for number in held:
            rates[number] = goals[number].weight * level
        active = [number for number in active if number not in held]
    return rates


def first_level_seconds(program: Program, goals: Sequence[Goal]) -> tuple[float, float]:
    """The first level alone, with HiGHS' own tolerances, and what HiGHS took: for benchmarks."""
    solver = _Solver(program, goals)
    rows = _Rows()
    for goal in goals:
        rows.add([(solver.level, goal.weight), (goal.column, -1.0)], 0.0)
    gain = np.zeros(solver.width)
    gain[solver.level] = 1.0
    matrix, side = solver.with_rows(rows)
    bounds = solver.bounds(free_level=True)
    start = time.perf_counter()
    answer = linprog(
        -gain,
        A_ub=matrix,
        b_ub=side,
        A_eq=solver.equal[0],
        b_eq=solver.equal[1],
        bounds=bounds,
        method="highs-ds",
    )
    seconds = time.perf_counter() - start
    if answer.status != 0:
        raise OracleError(f"HiGHS: {answer.message}")
    return float(-answer.fun), seconds


def ordered_levels(program: Program, goals: Sequence[Goal]) -> list[float]:
    """The same levels by another road, in ascending order: no freezing, no duals.

    The sum of the k smallest levels is maximised for k = 1, 2, ..., each with the sums before it
    kept (ordered outcomes, Ogryczak and Sliwinski): k r - sum_j d_j, d_j >= r - rate_j / weight_j.
    """
    solver = _Solver(program, goals)
    count = len(goals)
    first = solver.width  # r_k, then d_k1 ... d_kn, for each k
    width = first + count * (count + 1)
    rows = _Rows()
    sums: list[float] = []
    base, equal = solver.base, solver.equal[0]
    assert base is not None
    assert equal is not None
    wide = csr_array((base.data, base.indices, base.indptr), (base.shape[0], width))
    wide_equal = csr_array((equal.data, equal.indices, equal.indptr), (equal.shape[0], width))
    bounds = np.array([(0.0, np.inf)] * width)
    for k in range(1, count + 1):
        r = first + (k - 1) * (count + 1)
        bounds[r] = (-np.inf, np.inf)
        gain = np.zeros(width)
        gain[r] = k
        gain[r + 1 : r + 1 + count] = -1.0
        for j, goal in enumerate(goals):
            rows.add([(r, 1.0), (r + 1 + j, -1.0), (goal.column, -1.0 / goal.weight)], 0.0)
        extra, side = rows.matrix(width), rows.right_side()
        assert extra is not None
        assert side is not None
        assert solver.base_side is not None
        matrix = vstack([wide, extra], format="csr")
        for slack in (_SLACK, *_MORE_SLACK):  # of the sums kept: the other sides are zero
            sides = np.concatenate([solver.base_side, side * (1 - slack)])
            try:
                answer = solve(gain, (matrix, sides), (wide_equal, solver.equal[1]), bounds)
                break
            except OracleError:
                if slack == _MORE_SLACK[-1]:
                    raise
        sums.append(float(-answer.fun))
        rows.add([(c, -gain[c]) for c in range(r, r + 1 + count)], -sums[-1])
    return [sums[0], *np.diff(sums)]
