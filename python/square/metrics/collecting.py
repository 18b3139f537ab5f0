"""From a node's snapshot to metrics."""

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from square.metrics import families
from square.metrics.families import Family

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Measured(Protocol):
    """What can be served: a ``square.Node``."""

    def metrics(self) -> dict[str, Any]: ...


class NodeCollector:
    """What prometheus_client asks for metrics: one snapshot of the node a scrape."""

    def __init__(self, node: Measured) -> None:
        self._node = node

    def collect(self) -> "Iterator[Metric]":
        now = self._node.metrics()
        name = now["node"]
        whole = {**now["totals"], "epoch": now["epoch"] or 0}
        yield from _metrics(families.NODE, name, (), [whole])
        yield from _metrics(families.LINK, name, families.LINK_LABELS, map(_measured, now["links"]))
        yield from _metrics(families.SESSION, name, families.SESSION_LABELS, now["sessions"])
        yield from _metrics(families.TENANT, name, families.TENANT_LABELS, now["tenants"])


def _measured(link: dict[str, Any]) -> dict[str, Any]:
    if link["direction"] == "out":
        return link
    return {key: figure for key, figure in link.items() if key not in families.ONLY_OUT}


def _metrics(
    known: list[Family], node: str, labels: tuple[str, ...], rows: Iterable[dict[str, Any]]
) -> "Iterator[Metric]":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    rows = list(rows)
    for family in known:
        made = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
        further = [family.label] if family.label else []
        metric = made(family.name, family.what, labels=["node", *labels, *further])
        for row in rows:
            named = [node, *(str(row[label]) for label in labels)]
            for value, key in family.keys.items():
                figure = row.get(key)
                if figure is None and key in families.UNLIMITED and key in row:
                    figure = math.inf
                if figure is not None:
                    metric.add_metric([*named, value] if further else named, float(figure))
        yield metric
