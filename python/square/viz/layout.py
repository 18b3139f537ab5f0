"""Where nodes are drawn."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]

# With more of all possible neighbours than this, no arrangement shows more than a circle.
DENSE = 0.3
MAX_ROUNDS = 300
SETTLED = 1e-5


def positions(count: int, links: Sequence[tuple[int, int]]) -> Points:
    """A place for each of ``count`` nodes, within the square from -1 to 1; the same each time.

    Dense overlays are put on a circle, in order. Others are spread so that distances are
    like the numbers of hops: stress majorization (Gansner, Koren and North, "Graph drawing by
    stress majorization", 2004), from the classical scaling of the same distances.
    """
    if is_circle(count, links):
        return _circle(count)
    return _into_square(_spread(_hops(count, sorted(_neighbours(links)))))


def is_circle(count: int, links: Sequence[tuple[int, int]]) -> bool:
    return count < 3 or 2 * len(_neighbours(links)) > DENSE * count * (count - 1)


def _neighbours(links: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a, b in links if a != b}


def _circle(count: int) -> Points:
    angles = np.pi / 2 - 2 * np.pi * np.arange(count) / max(count, 1)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _hops(count: int, pairs: Sequence[tuple[int, int]]) -> Points:
    """Between all nodes, by a search from each; what is apart is one hop further than all else."""
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for a, b in pairs:
        neighbours[a].append(b)
        neighbours[b].append(a)
    hops = np.full((count, count), np.inf)
    for start in range(count):
        hops[start, start] = 0
        reached = [start]
        for node in reached:
            for neighbour in neighbours[node]:
                if np.isinf(hops[start, neighbour]):
                    hops[start, neighbour] = hops[start, node] + 1
                    reached.append(neighbour)
    apart = np.isinf(hops)
    hops[apart] = hops[~apart].max() + 1
    return hops


def _spread(hops: Points) -> Points:
    count = len(hops)
    places = _classical_scaling(hops)
    weight = 1.0 / np.where(hops > 0, hops, 1.0) ** 2
    np.fill_diagonal(weight, 0.0)
    laplacian = np.diag(weight.sum(axis=1)) - weight
    # One node stays where it is: all others have one best place.
    inverse = np.linalg.inv(laplacian[1:, 1:])
    for _ in range(MAX_ROUNDS):
        distance = np.linalg.norm(places[:, None] - places[None, :], axis=2)
        pull = np.where(distance > 0, weight * hops / np.where(distance > 0, distance, 1.0), 0.0)
        target = np.diag(pull.sum(axis=1)) - pull
        moved = np.zeros((count, 2))
        moved[1:] = inverse @ (target @ places)[1:]
        moved -= moved.mean(axis=0)
        change = float(np.abs(moved - places).max())
        places = moved
        if change < SETTLED:
            break
    return places


def _classical_scaling(hops: Points) -> Points:
    count = len(hops)
    centre = np.eye(count) - 1.0 / count
    values, vectors = np.linalg.eigh(-0.5 * centre @ hops**2 @ centre)
    largest = vectors[:, -2:]
    # The sign of an eigenvector is open.
    signs = np.sign(largest[np.abs(largest).argmax(axis=0), [0, 1]])
    places: Points = largest * signs * np.sqrt(np.maximum(values[-2:], 0.0))
    # Nodes with the same distances would lie on one another, and stay so.
    angles = 2.399963 * np.arange(count)
    spiral: Points = (
        0.05 * np.sqrt(np.arange(count) / count)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    )
    return places + spiral


def _into_square(places: Points) -> Points:
    """Wide rather than high, as screens are."""
    centred = places - places.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axes *= np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])[:, None]
    turned: Points = centred @ axes.T
    low, high = turned.min(axis=0), turned.max(axis=0)
    size = float((high - low).max())
    fitted: Points = (turned - (low + high) / 2) * (2.0 / size if size > 0 else 1.0)
    return fitted
