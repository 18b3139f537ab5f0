"""The names of a training's metrics, and which figure of its master's status each of them shows."""

import dataclasses
from typing import TYPE_CHECKING, Any

from square.metrics.families import Family

if TYPE_CHECKING:
    from square.ps.status import RoundStatus, Status

Row = dict[str, Any]


def _gauge(name: str, what: str, key: str) -> Family:
    return Family(f"square_ps_{name}", "gauge", what, "", {"": key})


def _counter(name: str, what: str, key: str) -> Family:
    return Family(f"square_ps_{name}", "counter", what, "", {"": key})


TRAINING: list[Family] = [
    _gauge("version", "Newest version of the model that counts; 0 before the first.", "version"),
    _counter("tokens", "Tokens in that version.", "tokens"),
    _counter("skipped_rounds", "Rounds that made no version, since this master began.", "rounds_skipped"),
    _gauge("waiting", "1 while something keeps the training waiting; `square ps status` says what.", "waits"),
    _gauge("moving_shards", "1 while parts of the model move to servers that came later.", "moves_shards"),
    Family(
        "square_ps_chunks",
        "gauge",
        "Parts of the data set.",
        "state",
        {"done": "chunks_done", "held": "chunks_held", "free": "chunks_free"},
    ),
]

WORKER: list[Family] = [
    _gauge("worker_connected", "1 while the worker is there.", "is_connected"),
    _gauge("worker_base_version", "Version that the worker trains on.", "base_version"),
    _counter("worker_pushes", "Pushes that the worker began.", "pushes"),
    _counter("worker_excluded_pushes", "Those that a version left out.", "excluded"),
    _counter("worker_skipped_pushes", "Pushes that nothing was made of.", "skipped"),
    _gauge("worker_staleness_versions", "Versions that its last push in one was behind.", "staleness"),
    _gauge("worker_push_seconds", "Its last push.", "push_seconds"),
    _gauge("worker_pull_seconds", "Its last pull.", "pull_seconds"),
    _gauge("worker_wait_seconds", "From its last push until it trained on with the result.", "wait_seconds"),
    _gauge("worker_push_interval_seconds", "From one push to the next, smoothed.", "interval_seconds"),
    _gauge("worker_idle_ratio", "Of its time: what it waits rather than trains.", "idle_share"),
    _gauge("worker_norm", "Norm of its last push in a version, finite or not.", "norm"),
    _gauge("worker_score", "What the penalty made of it: deviations above the mean.", "score"),
]

SERVER: list[Family] = [
    _gauge("server_connected", "1 while the server is there.", "is_connected"),
    _gauge("server_elements", "Elements of the model that the server keeps.", "elements"),
    _gauge("server_update_seconds", "The outer step of its last round.", "update_seconds"),
    _gauge("server_snapshot_seconds", "Writing of its last snapshot.", "snapshot_seconds"),
]

ROUND: list[Family] = [
    _gauge("round_version", "Version that the last round of pushes made.", "version"),
    _gauge("round_norm", "Norm of its average, before it was bounded.", "norm"),
    _gauge("round_factor", "What the average was multiplied with.", "factor"),
    _gauge("round_seconds", "How long that round took.", "seconds"),
    _gauge("round_pushes", "Pushes in it, those that it left out too.", "pushes"),
]

PART: list[Family] = [
    _gauge("part_info", "1; the labels say the hash of a server's part of the newest version.", "is_there"),
]

# The labels and families of each kind of row.
KINDS: dict[str, tuple[tuple[str, ...], list[Family]]] = {
    "training": ((), TRAINING),
    "workers": (("worker",), WORKER),
    "servers": (("server",), SERVER),
    "rounds": ((), ROUND),
    "parts": (("server", "version", "hash"), PART),
}


def rows_of(status: "Status") -> dict[str, list[Row]]:
    """By the kinds above: what the metrics show."""
    whole = {
        "version": status.version,
        # A master that has just begun does not know yet: a 0 would look like a counter that starts over.
        "tokens": status.tokens if status.version else None,
        "rounds_skipped": status.rounds_skipped,
        "waits": bool(status.waits_for),
        "moves_shards": status.moves_shards,
        "chunks_done": status.chunks_done,
        "chunks_held": status.chunks_held,
        "chunks_free": status.chunks - status.chunks_done - status.chunks_held,
    }
    return {
        "training": [whole],
        "workers": [
            {**dataclasses.asdict(one), "worker": one.name, "idle_share": one.idle_share}
            for one in status.workers
        ],
        "servers": [{**dataclasses.asdict(one), "server": one.name} for one in status.servers],
        "rounds": _last_round(status),
        "parts": [
            {"server": server, "version": status.version, "hash": text, "is_there": True}
            for server, text in newest_hashes(status).items()
        ],
    }


def newest_hashes(status: "Status") -> dict[str, str]:
    """By server: the hash of its part of the newest version; empty where this master did not make it."""
    newest = status.rounds[-1] if status.rounds else None
    if newest is None or newest.version != status.version:
        return {}
    return {part.server: f"{part.hash:016x}" for part in newest.parts}


def _last_round(status: "Status") -> list[Row]:
    """A version that only moved parts of the model, or began it, has no norm."""
    of_pushes: list[RoundStatus] = [one for one in status.rounds if one.pushes]
    return [
        {
            "version": one.version,
            "norm": one.norm,
            "factor": one.factor,
            "seconds": one.seconds,
            "pushes": len(one.pushes),
        }
        for one in of_pushes[-1:]
    ]
