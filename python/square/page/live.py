"""The page of `square top`."""

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from square import files
from square.page import links, tenants
from square.page.course import MAX_NAMES, chart
from square.page.document import check_page, document
from square.page.overlay import overlay
from square.page.words import count, escaped

if TYPE_CHECKING:
    from square.watch.rates import View


class LivePage:
    """Remembers the last views (tenants.MAX_LOOKS), and writes the newest with what tenants got until then.

    Raises as ``check_page``.
    """

    def __init__(self, file: Path, interval_seconds: float) -> None:
        check_page(file)
        self._file = file
        self._interval = interval_seconds
        self._course = tenants.Course()
        self._newest: tuple[View, datetime] | None = None
        self._began: datetime | None = None

    def add(self, view: "View") -> None:
        now = datetime.now().astimezone()
        self._newest = view, now
        self._began = self._began or now
        self._course.add(time.monotonic(), view)

    def write(self, is_last: bool = False) -> None:
        """Replaces the file whole; the last one does not ask browsers to read it again. Only after ``add``.

        Raises ``InvalidArgumentError`` where it cannot be written.
        """
        assert self._newest is not None
        view, looked = self._newest
        when = f"Looked at {looked:%Y-%m-%d %H:%M:%S %Z}"
        when += ", the last time." if is_last else f", and again every {self._interval:g} s."
        since = f"since {self._began:%H:%M:%S}"
        page = document(
            "square top", body_of(view, self._course, when, since), None if is_last else self._interval
        )
        with files.replacing(self._file) as path:
            path.write_text(page, encoding="utf-8", errors="replace")


def body_of(view: "View", course: tenants.Course, when: str, since: str) -> str:
    flows = [links.flow_of(row) for row in view.links]
    title = f"Tenants' rates {since}, and in dashes what is planned"
    return f"""\
<header><h1>square top</h1><p>{escaped(_headline(view))}. {escaped(when)}</p>{_silent(view)}</header>
<main>
{overlay("Links: rate on plan, and used share", links.sites_of(view), flows)}
<div>
{chart(title, course.series(), marks=course.marks())}
<section>{tenants.table_of(view.tenants, course.names()[:MAX_NAMES])}</section>
</div>
<section class="full">{links.table_of(view.links)}</section>
</main>"""


def _headline(view: "View") -> str:
    answering = [node for node in view.nodes if node["reason"] is None]
    epochs = sorted({node["epoch"] for node in answering if node["epoch"] is not None})
    plans = "no plan yet" if not epochs else "plan " + ", ".join(map(str, epochs))
    return f"{count(len(answering), 'node')}, {plans}"


def _silent(view: "View") -> str:
    return "".join(
        f'<p class="problem">{escaped(node["address"])} does not answer: {escaped(node["reason"])}</p>'
        for node in view.nodes
        if node["reason"] is not None
    )
