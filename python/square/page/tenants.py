"""What tenants get, against what they were promised: until now, and now."""

from collections import deque
from typing import TYPE_CHECKING, Any

from square.page.course import MAX_NAMES, Series
from square.page.tables import Cell, table
from square.page.words import mbps, percent

if TYPE_CHECKING:
    from square.watch.rates import View

# What the picture goes back: ten minutes at a look a second.
MAX_LOOKS = 600

# As `square top` says how a tenant does: by what arrives, or where nothing is to arrive by what leaves.
_ENDS = (("planned_received_bps", "received_bps"), ("planned_sent_bps", "sent_bps"))

_COLUMNS = ("tenant", "plan", "sent", "planned", "received", "planned", "delivered", "of plan")
_RATES = (
    "planned_bps",
    "sent_bps",
    "planned_sent_bps",
    "received_bps",
    "planned_received_bps",
    "delivered_bps",
)

Row = dict[str, Any]


class Course:
    """Each tenant's measured and planned rate, and when plans changed, over the last looks."""

    def __init__(self, max_looks: int = MAX_LOOKS) -> None:
        self._looks: deque[tuple[float, dict[str, tuple[float | None, float]]]] = deque(maxlen=max_looks)
        self._plans: deque[tuple[float, int]] = deque(maxlen=max_looks)
        self._begin: float | None = None

    def add(self, at_seconds: float, view: "View") -> None:
        if self._begin is None:
            self._begin = at_seconds
        at = at_seconds - self._begin
        rates = {row["tenant"]: _rate_and_plan(row) for row in view.tenants}
        # Nodes tell of tenants that left, too; those rest for ever.
        self._looks.append((at, {name: rate for name, rate in rates.items() if rate[0] or rate[1]}))
        epoch = max((node["epoch"] for node in view.nodes if node["epoch"] is not None), default=None)
        if epoch is not None and (not self._plans or self._plans[-1][1] != epoch):
            self._plans.append((at, epoch))

    def names(self) -> list[str]:
        """The MAX_NAMES tenants that got or were promised most, and after them the others; as they came,
        so that each keeps its colour."""
        most: dict[str, float] = {}
        for _, rates in self._looks:
            for name, (measured, planned) in rates.items():
                most[name] = max(most.get(name, 0.0), measured or 0.0, planned)
        largest = set(sorted(most, key=lambda name: (-most[name], name))[:MAX_NAMES])
        return sorted(most, key=lambda name: name not in largest)

    def series(self) -> list[Series]:
        """In Mbit/s, the plan in dashes."""
        found = []
        for name in self.names():
            course = [(at, rates.get(name, (None, None))) for at, rates in self._looks]
            found.append(Series(name, [(at, _in_mbps(plan)) for at, (_, plan) in course], is_dashed=True))
            found.append(Series(name, [(at, _in_mbps(measured)) for at, (measured, _) in course]))
        return found

    def marks(self) -> list[tuple[float, str]]:
        """Plans that came while it was watched, but for the first."""
        first = self._looks[0][0] if self._looks else 0.0
        return [(at, f"plan {epoch}") for at, epoch in list(self._plans)[1:] if at >= first]


def _rate_and_plan(tenant: Row) -> tuple[float | None, float]:
    for planned, measured in _ENDS:
        if tenant[planned]:
            return tenant[measured], tenant[planned]
    known = [tenant[measured] for _, measured in _ENDS if tenant[measured] is not None]
    return max(known, default=None), 0.0


def _in_mbps(rate_bps: float | None) -> float | None:
    return None if rate_bps is None else rate_bps / 1e6


def table_of(rows: list[Row], drawn: list[str]) -> str:
    """``drawn``: those that have a line in the picture, and so a colour."""
    colours = {name: number for number, name in enumerate(drawn)}
    cells: list[list[Cell | str]] = [
        [
            Cell(row["tenant"], colour=colours.get(row["tenant"])),
            *(mbps(row[key]) for key in _RATES),
            Cell(percent(row["of_plan"]), share=row["of_plan"]),
        ]
        for row in rows
    ]
    return table("Tenants, Mbit/s", _COLUMNS, cells)
