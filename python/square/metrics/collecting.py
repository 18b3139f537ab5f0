"""From the snapshot of a node, or of a master of parameter servers, to metrics."""

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from square.metrics import families, training
from square.metrics.families import Family

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from square.ps.status import Status

Row = dict[str, Any]


@runtime_checkable
class Measured(Protocol):
    """What can be served: a ``square.Node``."""

    def metrics(self) -> dict[str, Any]: ...


@runtime_checkable
class Training(Protocol):
    """What can be served, too: a ``square.ps.Master``."""

    def status(self) -> "Status": ...


class Collector(Protocol):
    """What prometheus_client asks for metrics."""

    def collect(self) -> "Iterator[Metric]": ...


def collector_of(served: Measured | Training) -> Collector:
    return NodeCollector(served) if isinstance(served, Measured) else TrainingCollector(served)


class NodeCollector:
    """One snapshot of the node a scrape."""

    def __init__(self, node: Measured) -> None:
        self._node = node

    def collect(self) -> "Iterator[Metric]":
        now = self._node.metrics()

        def named(known: list[Family], labels: tuple[str, ...], rows: Iterable[Row]) -> "Iterator[Metric]":
            return _metrics(known, ("node", *labels), ({**row, "node": now["node"]} for row in rows))

        whole = {**now["totals"], "epoch": now["epoch"] or 0}
        yield from named(families.NODE, (), [whole])
        yield from named(families.LINK, families.LINK_LABELS, map(_measured, now["links"]))
        yield from named(families.SESSION, families.SESSION_LABELS, now["sessions"])
        yield from named(families.TENANT, families.TENANT_LABELS, now["tenants"])


class TrainingCollector:
    """One status of the master a scrape."""

    def __init__(self, master: Training) -> None:
        self._master = master

    def collect(self) -> "Iterator[Metric]":
        now = training.rows_of(self._master.status())
        for rows, (labels, known) in training.KINDS.items():
            yield from _metrics(known, labels, now[rows])


def _measured(link: Row) -> Row:
    if link["direction"] == "out":
        return link
    return {key: figure for key, figure in link.items() if key not in families.ONLY_OUT}


def _metrics(known: list[Family], labels: tuple[str, ...], rows: Iterable[Row]) -> "Iterator[Metric]":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    rows = list(rows)
    for family in known:
        made = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
        further = [family.label] if family.label else []
        metric = made(family.name, family.what, labels=[*labels, *further])
        for row in rows:
            named = [str(row[label]) for label in labels]
            for value, key in family.keys.items():
                figure = row.get(key)
                if figure is None and key in families.UNLIMITED and key in row:
                    figure = math.inf
                if figure is not None:
                    metric.add_metric([*named, value] if further else named, float(figure))
        yield metric
