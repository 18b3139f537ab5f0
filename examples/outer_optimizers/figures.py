"""What the runs come to."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import clusters as clock
import modes
from clusters import FLOAT_BYTES, Clusters
from modes import DATA_PARALLEL, Run, Task

REFERENCE = "diloco"
CLOSE = 0.01  # of the reference's loss
FEW_BYTES = "diloco-int8"
ARITHMETIC_HORIZON = 500
CLOCK_ROUNDS = 200

Group = tuple[str, int]  # mode, horizon


def grouped(runs: Iterable[Run]) -> dict[Group, list[Run]]:
    found: dict[Group, list[Run]] = defaultdict(list)
    for one in runs:
        found[one.mode, one.horizon].append(one)
    return dict(found)


def losses(runs: list[Run]) -> dict[str, Any]:
    final = [one.loss for one in runs]
    return {
        "losses": final,
        "mean": statistics.fmean(final),
        "deviation": statistics.stdev(final) if len(final) > 1 else 0.0,
        "least": min(final),
        "largest": max(final),
    }


def loss_rows(runs: list[Run]) -> list[dict[str, Any]]:
    """Of every mode and horizon; beside synchronous DiLoCo with the same horizon, seed by seed; data
    parallel beside that with the longest."""
    groups = grouped(runs)
    rows = []
    for (mode, horizon), found in groups.items():
        row: dict[str, Any] = {"mode": mode, "horizon": horizon, **losses(found)}
        row["tokens"] = [one.tokens for one in found]
        row["left_out"] = sum(one.left_out for one in found)
        row["clipped"] = sum(one.clipped for one in found)
        beside = max(group[1] for group in groups) if mode == DATA_PARALLEL else horizon
        reference = groups.get((REFERENCE, beside))
        if reference and mode != REFERENCE:
            pairs = zip(found, reference, strict=True)
            row["above_reference"] = statistics.fmean(one.loss / other.loss - 1 for one, other in pairs)
            spread = max(one.loss for one in reference) - min(one.loss for one in reference)
            mean = statistics.fmean(one.loss for one in reference)
            row["is_close"] = row["above_reference"] <= CLOSE
            row["is_within_spread"] = row["mean"] - mean <= spread
        rows.append(row)
    return rows


def bytes_until(run: Run, loss: float) -> float:
    """Of one cluster, sent and received, until its curve has come to the loss: between points a line."""
    for before, after in zip(run.curve, run.curve[1:], strict=False):
        if after[3] <= loss:
            part = 0.0 if before[3] <= loss else (before[3] - loss) / (before[3] - after[3])
            return before[2] + part * (after[2] - before[2])
    return math.inf


def bytes_row(runs: list[Run], mode: str, horizon: int) -> dict[str, Any] | None:
    """Data parallel and another mode until both have the same loss: the best that both come to."""
    groups = grouped(runs)
    parallel = next((found for (name, _), found in groups.items() if name == DATA_PARALLEL), None)
    others = groups.get((mode, horizon))
    if parallel is None or others is None:
        return None
    each = []
    for one, other in zip(parallel, others, strict=True):
        loss = max(min(point[3] for point in run.curve) for run in (one, other))
        spent = [bytes_until(run, loss) for run in (one, other)]
        each.append({"seed": one.seed, "loss": loss, "bytes": spent, "ratio": spent[0] / spent[1]})
    ratios = [one["ratio"] for one in each]
    return {
        "mode": mode,
        "horizon": horizon,
        "seeds": each,
        "mean": statistics.fmean(ratios),
        "least": min(ratios),
        "largest": max(ratios),
    }


def bytes_a_step(clusters: Clusters, mode: str, horizon: int, parameters: int) -> float:
    """Of one cluster, sent and received, for each of its steps."""
    size = FLOAT_BYTES * parameters
    if mode == DATA_PARALLEL:
        return 2 * clusters.ring_bytes(size)
    if mode == modes.PACED:
        horizons = clock.paced(clusters, horizon, size)
        return 2 * size * len(horizons) / sum(horizons)
    if mode in modes.SERVERS:
        return 2 * size / horizon
    return 2 * clusters.ring_bytes(payload(mode, size)) / horizon


def payload(mode: str, size_bytes: float) -> float:
    """int8 has a float32 scale for each 256 elements."""
    return size_bytes * (1 + 4 / 256) / FLOAT_BYTES if mode == FEW_BYTES else size_bytes


def clock_rows(task: Task, names: Iterable[str], horizon: int, parameters: int) -> list[dict[str, Any]]:
    """Throughput over synchronous DiLoCo's and bytes, by the clock alone: nothing is trained."""
    size = FLOAT_BYTES * parameters
    clusters = task.clusters

    def rate(mode: str) -> float:
        every = 1 if mode == DATA_PARALLEL else horizon
        asked = replace(task, mode=mode, horizon=every)
        return modes.steps_a_second(asked, payload(mode, size), CLOCK_ROUNDS)

    reference = rate(REFERENCE)
    parallel = bytes_a_step(clusters, DATA_PARALLEL, 1, parameters)
    return [
        {
            "mode": mode,
            "horizon": horizon,
            "tokens_a_second": task.learning.step_tokens * rate(mode),
            "over_reference": rate(mode) / reference,
            "bytes_a_step": bytes_a_step(clusters, mode, horizon, parameters),
            "times_fewer_bytes": parallel / bytes_a_step(clusters, mode, horizon, parameters),
        }
        for mode in names
    ]


def ceilings(task: Task, horizon: int, parameters: int) -> dict[str, float]:
    """What asynchrony can gain at the most: without communication, and over these links."""
    clusters, size = task.clusters, FLOAT_BYTES * parameters
    reference = replace(task, mode=REFERENCE, horizon=horizon)
    free = modes.steps_a_second(reference, 0, CLOCK_ROUNDS)
    bound = modes.steps_a_second(reference, size, CLOCK_ROUNDS)
    return {
        "without_communication": clock.most_steps_a_second(clusters, horizon) / free,
        "over_these_links": clock.most_steps_a_second(clusters, horizon, size) / bound,
    }


def figures(task: Task, runs: list[Run], parameters: int) -> dict[str, Any]:
    horizons = sorted({one.horizon for one in runs if one.mode != DATA_PARALLEL}, reverse=True)
    names = list(dict.fromkeys(one.mode for one in runs))
    few = [bytes_row(runs, mode, horizon) for horizon in horizons for mode in names if mode != DATA_PARALLEL]
    return {
        "losses": loss_rows(runs),
        "bytes_until_the_same_loss": [row for row in few if row is not None],
        "throughput": [row for horizon in horizons for row in clock_rows(task, names, horizon, parameters)],
        "ceilings": {str(horizon): ceilings(task, horizon, parameters) for horizon in horizons},
        "arithmetic": {
            "horizon": ARITHMETIC_HORIZON,
            "note": "arithmetic: nothing was trained with this horizon",
            "rows": clock_rows(task, names, ARITHMETIC_HORIZON, parameters),
            "ceilings": ceilings(task, ARITHMETIC_HORIZON, parameters),
        },
    }
