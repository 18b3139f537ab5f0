"""From the text of an endpoint back to the snapshot that it shows."""

import math
from typing import Any

from square.metrics import families
from square.metrics.families import Family

Snapshot = dict[str, Any]


def read(text: str) -> Snapshot:
    """What ``Node.metrics()`` said, but for ``totals``, of which only what is served is there.

    A figure that was left out is None, and so is a rate without a limit. Raises ValueError for a
    text that is not a node's metrics.
    """
    from prometheus_client.parser import text_string_to_metric_families

    rows: dict[str, dict[tuple[str, ...], dict[str, Any]]] = {kind: {} for kind in _KINDS}
    node = None
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            kind, known = _OF_METRIC.get(sample.name, ("", None))
            if known is None:
                continue
            labels, _ = _KINDS[kind]
            node = _label(sample.labels, "node")
            named = tuple(_label(sample.labels, label) for label in labels)
            row = rows[kind].setdefault(named, _named(labels, named))
            key = known.keys.get(sample.labels.get(known.label, ""))
            if key is not None:
                row[key] = _figure(key, sample.value)
    if node is None:
        raise ValueError("it has none of a node's metrics")
    (whole,) = rows["node"].values() or ({},)
    return {
        "node": node,
        "epoch": whole.pop("epoch", 0) or None,
        "totals": whole,
        "links": [_complete(row, families.LINK) for row in rows["links"].values()],
        "sessions": [_complete(row, families.SESSION) for row in rows["sessions"].values()],
        "tenants": [_complete(row, families.TENANT) for row in rows["tenants"].values()],
    }


_KINDS: dict[str, tuple[tuple[str, ...], list[Family]]] = {
    "node": ((), families.NODE),
    "links": (families.LINK_LABELS, families.LINK),
    "sessions": (families.SESSION_LABELS, families.SESSION),
    "tenants": (families.TENANT_LABELS, families.TENANT),
}
_OF_METRIC: dict[str, tuple[str, Family]] = {
    family.name + ("_total" if family.kind == "counter" else ""): (kind, family)
    for kind, (_, known) in _KINDS.items()
    for family in known
}


def _figure(key: str, value: float) -> float | bool | None:
    if key == "is_up":
        return value != 0
    if key.endswith(("_bps", "_seconds")):
        return None if math.isinf(value) else value
    return int(value)


def _named(labels: tuple[str, ...], values: tuple[str, ...]) -> dict[str, Any]:
    return {
        label: int(value) if label in families.NUMBERED else value
        for label, value in zip(labels, values, strict=True)
    }


def _label(labels: dict[str, str], name: str) -> str:
    if name not in labels:
        raise ValueError(f"a metric has no label {name}")
    return labels[name]


def _complete(row: dict[str, Any], known: list[Family]) -> dict[str, Any]:
    return {**{key: None for family in known for key in family.keys.values()}, **row}
