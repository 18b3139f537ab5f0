"""Pages for a browser, and `square top --html`, which writes one."""

import math
import re
import shutil
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import square as package
from commands import assert_clear_error, square, start, wait_until
from matplotlib.image import imread
from square.errors import InvalidArgumentError, NotFoundError
from square.page import (
    MAX_NAMES,
    Flow,
    LivePage,
    Series,
    Site,
    chart,
    check_page,
    document,
    overlay,
    picture,
    table,
)
from square.page import links as page_links
from square.page.overlay import MAX_IDLE_LINKS, MAX_LINKS, MAX_NODES
from square.page.ring import MAX_LEVEL_NAMES, Ring
from square.page.scale import ticks, time_label, time_ticks
from square.page.tables import MAX_ROWS
from square.page.tenants import Course
from square.page.words import figure
from square.watch.rates import View
from test_metrics import SCENARIO, pair, two_nodes

HOSTILE = "</svg><script>alert(1)</script>\"'&\x00\u202e"
NEW_COLOURS = 24  # a page has more than a blank one, whatever the browser's fonts


def parsed(markup: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{markup}</div>")


def of_class(tree: ElementTree.Element, name: str, tag: str = "*") -> list[ElementTree.Element]:
    return [
        found for found in tree.iter() if tag in ("*", found.tag) and name in found.get("class", "").split()
    ]


def text_of(element: ElementTree.Element) -> str:
    return "".join(element.itertext())


def flow(tail: str, head: str, rate: float | None = 4e6, planned: float = 5e6, **changes: Any) -> Flow:
    return Flow(**{
        "from_node": tail, "to_node": head, "rate_bps": rate, "planned_bps": planned, "capacity_bps": 10e6,
        "used": None if rate is None else rate / 10e6, **changes,
    })  # fmt: skip


def sites(count: int) -> list[Site]:
    return [Site(f"n{number}") for number in range(count)]


def drawn(flows: list[Flow], nodes: list[Site] | None = None) -> ElementTree.Element:
    return parsed(overlay("Links", sites(3) if nodes is None else nodes, flows))


def numbers_of(path: ElementTree.Element) -> list[float]:
    return [float(word) for word in re.findall(r"-?[\d.]+", path.get("d", ""))]


def test_each_node_and_each_direction_is_drawn_with_its_figures() -> None:
    flows = [flow("n0", "n1"), flow("n1", "n0", rate=1e6), flow("n1", "n2", rate=0, planned=0)]
    tree = drawn(flows)
    assert [text_of(text) for node in of_class(tree, "node") for text in node.iter("text")] == [
        "n0",
        "n1",
        "n2",
    ]
    assert len(of_class(tree, "link")) == 3
    tips = [text_of(next(link.iter("title"))) for link in of_class(tree, "link")]
    assert any("n0 → n1: 4.00 Mbit/s, planned 5.00, capacity 10.0, 40% used" in tip for tip in tips)
    (busiest,) = [link for link in of_class(tree, "link") if "n0 → n1" in text_of(link)]
    (bed,), (load,) = of_class(busiest, "bed"), of_class(busiest, "load")
    # As wide as what is carried, of what is planned.
    assert float(load.get("stroke-width", "")) / float(bed.get("stroke-width", "")) == pytest.approx(0.8)


def test_directions_are_apart_each_on_the_right_of_its_way() -> None:
    tree = drawn([flow("n0", "n1"), flow("n1", "n0")])
    there, back = (numbers_of(of_class(link, "load")[0]) for link in of_class(tree, "link"))
    for start_x, start_y, middle_x, middle_y, end_x, end_y in (there, back):
        # Down is positive: on the right of the way the product is.
        across = (end_x - start_x) * (middle_y - start_y) - (end_y - start_y) * (middle_x - start_x)
        assert across > 0
    assert math.dist(there[2:4], back[2:4]) > 40


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"used": 0.3}, "use0"),
        ({"used": 0.5}, "use1"),
        ({"used": 0.8}, "use2"),
        ({"used": 1.07}, "use3"),
        ({"used": None}, "use0"),
        ({"rate": None}, "unknown"),
        ({"rate": None, "planned": 0}, "idle"),
        ({"rate": 0}, "idle"),
        ({"is_up": False}, "down"),
        # What no plan uses is not connected, which is no fault.
        ({"is_up": False, "rate": 0, "planned": 0}, "idle"),
    ],
)
def test_colour_is_the_used_share(changes: dict[str, Any], kind: str) -> None:
    (link,) = of_class(drawn([flow("n0", "n1", **changes)]), "link")
    assert link.get("class") == f"link {kind}"


def test_no_node_one_node_and_flows_that_lead_nowhere() -> None:
    assert "No node is known." in overlay("Links", [], [])
    alone = drawn([flow("n0", "n0"), flow("n0", "gone")], sites(1))
    assert len(of_class(alone, "node")) == 1
    assert of_class(alone, "link") == []


@pytest.mark.parametrize("count", [*range(1, MAX_LEVEL_NAMES + 1)])
def test_level_names_do_not_touch(count: int) -> None:
    name = "m" * 20
    boxes = []
    for text in drawn([], [Site(name + str(number)) for number in range(count)]).iter("text"):
        x, y = float(text.get("x", "0")), float(text.get("y", "0"))
        width = 7.5 * len(text_of(text))
        left = {"start": x, "middle": x - width / 2, "end": x - width}[text.get("text-anchor", "")]
        rise = {".35em": 0.35, "0": 0.0, ".7em": 0.7, None: 0.0}[text.get("dy")]
        boxes.append((left, left + width, y + 13 * (rise - 0.75), y + 13 * (rise + 0.2)))
    assert len(boxes) == count
    for index, (left, right, top, bottom) in enumerate(boxes):
        for other_left, other_right, other_top, other_bottom in boxes[:index]:
            assert right <= other_left or other_right <= left or bottom <= other_top or other_bottom <= top


@pytest.mark.parametrize("count", [17, 63, 256])
def test_names_of_many_nodes_stand_along_the_spokes_with_room(count: int) -> None:
    turned = [text.get("transform", "") for text in drawn([], sites(count)).iter("text")]
    assert len(set(turned)) == count
    assert 2 * math.pi * Ring(count).radius / count > 1.5 * 13


def test_pictures_are_inside_their_frames() -> None:
    for count in (1, 2, 3, 16, 63):
        names = [Site("a long name of a site" * 3) for _ in range(count)]
        flows = [flow(names[0].name, names[-1].name)]
        svg = next(drawn(flows, names).iter("svg"))
        left, top, width, height = map(float, svg.get("viewBox", "").split())
        for circle in svg.iter("circle"):
            x, y = float(circle.get("cx", "")), float(circle.get("cy", ""))
            assert left < x < left + width
            assert top < y < top + height


def test_what_is_drawn_is_bounded_and_says_so() -> None:
    names = [f"n{number}" for number in range(40)]
    pairs = [(a, b) for a in names for b in names if a != b]
    idle = [flow(*pair, rate=0, planned=0) for pair in pairs[: MAX_IDLE_LINKS + 1]]
    tree = drawn([*idle, flow(*pairs[-1])], sites(40))
    assert len(of_class(tree, "link")) == 1
    assert f"{len(idle)} links that are not drawn" in text_of(tree)
    busy = drawn([flow(*pair, planned=1e6 * rank) for rank, pair in enumerate(pairs)], sites(40))
    assert len(of_class(busy, "link")) == MAX_LINKS
    assert "n39 → n38" in text_of(busy)  # the busiest
    assert "And 4 nodes that are not drawn." in overlay("", sites(MAX_NODES + 4), [])


def test_names_never_become_markup() -> None:
    flows = [flow(HOSTILE, "b", note=HOSTILE)]
    parts = [
        overlay(HOSTILE, [Site(HOSTILE, HOSTILE), Site("b")], flows),
        chart(HOSTILE, [Series(HOSTILE, [(0, 1), (1, 2)])], HOSTILE, [(0.5, HOSTILE)]),
        table(HOSTILE, [HOSTILE], [[HOSTILE]]),
    ]
    page = document(HOSTILE, "".join(parts))
    assert "<script" not in page
    tree = ElementTree.fromstring(page)
    assert all(found.tag != "script" for found in tree.iter())
    assert "</svg><script>alert(1)</script>\"'&\ufffd\ufffd" in text_of(tree)


def test_the_same_figures_give_the_same_text() -> None:
    flows = [
        flow("n0", "n3"),
        flow("n3", "n0"),
        flow("n1", "n2", rate=0, planned=0),
        flow("n2", "n1", used=0.9),
    ]
    assert overlay("", sites(5), flows) == overlay("", sites(5), flows[::-1])
    series = [Series("a", [(0, 1 / 3), (1, 2 / 3)]), Series("b", [(0, 1), (1, 0)], is_dashed=True)]
    assert chart("", series) == chart("", series)
    # A tenth of a pixel is enough.
    coordinates = re.findall(r' (?:d|x|y|cx|cy)="([^"]*)"', overlay("", sites(5), flows) + chart("", series))
    assert coordinates
    assert [found for found in coordinates if re.search(r"\.\d\d", found)] == []


def test_a_chart_has_one_colour_a_name_and_labels_at_the_ends() -> None:
    measured = Series("alice", [(0, 10), (1, 12), (2, 11)])
    planned = Series("alice", [(0, 12), (2, 12)], is_dashed=True)
    tree = parsed(chart("Rates", [planned, measured, Series("bob", [(0, 5), (2, 5.25)])]))
    assert text_of(next(tree.iter("figcaption"))) == "Rates"
    assert [line.get("class") for line in of_class(tree, "line")] == ["line c1", "line c2"]
    assert [line.get("class") for line in of_class(tree, "dashed")] == ["dashed c1"]
    words = [text_of(text) for text in tree.iter("text")]
    assert "alice 11.0" in words
    assert "bob 5.25" in words
    assert "Mbit/s" in words
    assert {"0 s", "1 s", "2 s"} <= set(words)
    assert "alice: 11.0 Mbit/s at last, 10.0 to 12.0" in text_of(tree)
    assert all(numbers_of(path) for path in of_class(tree, "line")[0].iter("path"))


def test_what_is_not_known_leaves_gaps() -> None:
    values = [1.0, 2.0, None, 3.0, math.nan, 4.0, 5.0, math.inf]
    tree = parsed(chart("", [Series("a", list(enumerate(values)))]))
    (line,) = of_class(tree, "line")
    assert [len(numbers_of(path)) // 2 for path in line.iter("path")] == [2, 2]
    assert len(list(line.iter("circle"))) == 1  # the 3 between two gaps
    assert "a" in [text_of(text) for text in tree.iter("text")]  # its last value is not known
    assert "Nothing is measured yet." in chart("", [Series("a", [(0, None)])])
    assert "Nothing is measured yet." in chart("", [], marks=[(1, "kill")])


def test_labels_of_lines_that_end_together_are_apart() -> None:
    lines = [Series(f"tenant {number}", [(0, 1), (1, 10 + 0.01 * number)]) for number in range(MAX_NAMES + 3)]
    tree = parsed(chart("", lines))
    heights = sorted(float(text.get("y", "")) for text in tree.iter("text") if "tenant" in text_of(text))
    assert len(heights) == MAX_NAMES
    assert all(after - before >= 15.9 for before, after in pairwise(heights))
    assert "And 3 more that are not drawn." in text_of(tree)


def test_marks_are_lines_with_labels_that_do_not_touch() -> None:
    points = [(float(at), 1.0) for at in range(100)]
    marks = [
        (10.0, "node a killed"),
        (11.0, "plan 5"),
        (12.0, "plan 6"),
        (13.0, "plan 7"),
        (60.0, "node a back"),
    ]
    tree = parsed(chart("", [Series("a", points)], marks=marks))
    assert len(of_class(tree, "mark")) == len(marks)
    shown = {text_of(text): float(text.get("y", "")) for text in of_class(tree, "soft", "text")}
    assert len({shown[name] for name in ("node a killed", "plan 5", "plan 6")}) == 3
    assert "plan 7" not in shown
    assert shown["node a back"] == shown["node a killed"]
    assert "plan 7: 13 s" in [text_of(tip) for tip in tree.iter("title")]
    later = parsed(chart("", [Series("a", points)], marks=[(200.0, "end")]))
    assert "3:20" in text_of(later)


@pytest.mark.parametrize(
    ("high", "expected"),
    [
        (0, [0, 1]),
        (1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (101, [0, 25, 50, 75, 100, 125]),
        (0.003, [0, 0.001, 0.002, 0.003]),
        (9_000, [0, 2_000, 4_000, 6_000, 8_000, 10_000]),
    ],
)
def test_ticks_are_round(high: float, expected: list[float]) -> None:
    assert ticks(high, 5) == expected


def test_times_are_counted_as_people_do() -> None:
    assert time_ticks(0, 100, 7) == [0, 15, 30, 45, 60, 75, 90]
    assert time_ticks(2.1, 2.9, 4) == [2.2, 2.4, 2.6, 2.8]
    assert time_ticks(300, 900, 7) == [360, 480, 600, 720, 840]
    assert time_ticks(0, 86_400, 6) == [0, 18_000, 36_000, 54_000, 72_000]
    assert time_ticks(5, 5, 7) == [5]
    assert [time_label(150, last) for last in (100, 600, 7200)] == ["150 s", "2:30", "0:02:30"]


def test_figures_have_three_digits() -> None:
    values = (None, math.nan, 0, 0.1234, 1.234, 9.9999, 12.34, 123.4, 12_345.6)
    assert [figure(value) for value in values] == [
        "-",
        "-",
        "0",
        "0.123",
        "1.23",
        "10.0",
        "12.3",
        "123",
        "12,346",
    ]


def tenant(name: str, received: float | None, planned: float = 6e6) -> dict[str, Any]:
    return {
        "tenant": name, "planned_bps": planned, "sent_bps": 0.0, "planned_sent_bps": 0.0,
        "received_bps": received, "planned_received_bps": planned, "delivered_bps": received,
        "of_plan": received / planned if received and planned else None,
    }  # fmt: skip


def view(tenants: list[dict[str, Any]], epoch: int | None = 1, **link: Any) -> View:
    row = {
        "from": "a", "to": "b", "is_up": True, "channels": 1, "bytes": 1, "rate_bps": 4e6, "wire_bps": 4.1e6,
        "planned_bps": 5e6, "capacity_bps": None, "utilisation": None, "queue_blocks": 1, "blocks_resent": 0,
        "round_trip_seconds": 0.01, **link,
    }  # fmt: skip
    node = {"address": "127.0.0.1:1", "node": "a", "epoch": epoch, "reason": None}
    return View([node], [row], [], tenants)


def test_the_course_of_tenants_is_bounded_and_ends_with_them() -> None:
    course = Course(max_looks=4)
    for second in range(10):
        here = [tenant("alice", 5e6), tenant("gone", 0.0, 0.0)] + (
            [tenant("bob", None)] if second < 8 else []
        )
        course.add(100.0 + second, view(here, epoch=3 + second // 4))
    lines = {(one.name, one.is_dashed): one.points for one in course.series()}
    assert lines.keys() == {("alice", True), ("alice", False), ("bob", True), ("bob", False)}
    assert list(lines["alice", False]) == [(6.0, 5.0), (7.0, 5.0), (8.0, 5.0), (9.0, 5.0)]
    assert [plan for _, plan in lines["bob", True]] == [6.0, 6.0, None, None]
    assert [value for _, value in lines["bob", False]] == [None] * 4
    assert course.marks() == [(8.0, "plan 5")]


def test_with_many_tenants_the_largest_are_drawn() -> None:
    course = Course()
    course.add(0.0, view([tenant(f"t{number}", None, planned=1e6 * number) for number in range(1, 12)]))
    assert course.names() == [f"t{number}" for number in (4, 5, 6, 7, 8, 9, 10, 11, 1, 2, 3)]


def test_sources_alone_are_measured_by_what_leaves() -> None:
    course = Course()
    sending = {**tenant("alice", 0.0, 0.0), "sent_bps": 3e6, "planned_sent_bps": 4e6}
    course.add(0.0, view([sending]))
    planned, measured = course.series()
    assert (list(planned.points), list(measured.points)) == ([(0.0, 4.0)], [(0.0, 3.0)])


def test_nodes_stand_in_the_order_of_their_numbers() -> None:
    rows = [{"from": "site 10", "to": "site 9"}, {"from": "site 2", "to": "9" * 5000}]
    names = [site.name for site in page_links.sites_of(View([], rows))]
    assert names[:2] == ["9" * 5000, "site 2"]
    assert names[2:] == ["site 9", "site 10"]


def test_without_a_known_capacity_the_share_is_of_the_plan() -> None:
    (row,) = view([]).links
    assert page_links.flow_of(row).used == pytest.approx(0.8)
    assert page_links.flow_of({**row, "rate_bps": None}).used is None


def test_tables_are_bounded_and_show_shares() -> None:
    tree = parsed(table("Many", ["name"], [[str(number)] for number in range(MAX_ROWS + 7)]))
    assert len(list(tree.iter("td"))) == MAX_ROWS
    assert "And 7 more." in text_of(tree)
    assert "None." in table("Nothing", ["name"], [])


def test_a_page_is_one_file_that_asks_nobody(tmp_path: Path) -> None:
    file = tmp_path / "top.html"
    page = LivePage(file, 0.25)
    page.add(view([tenant("alice", None)], rate_bps=None, wire_bps=None))
    page.add(view([tenant("alice", 5e6), tenant(HOSTILE, 1e6)]))
    page.write()
    text = file.read_text(encoding="utf-8")
    tree = ElementTree.fromstring(text)
    assert re.findall(r"(?:https?:|//\w|url\(|@import|src=|href=)", text) == []
    assert {found.tag for found in tree.iter()}.isdisjoint({"script", "link", "img", "iframe"})
    assert len(of_class(tree, "swatch")) == 2
    assert '<meta http-equiv="refresh" content="1"/>' in text
    page.write(is_last=True)
    assert 'http-equiv="refresh"' not in file.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [file]


def test_where_no_page_can_be(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="is a directory"):
        check_page(tmp_path)
    with pytest.raises(NotFoundError, match="no such directory"):
        check_page(tmp_path / "missing" / "top.html")
    check_page(tmp_path / "top.html")


def test_top_says_what_keeps_it_from_a_page_before_it_asks(tmp_path: Path) -> None:
    # Nobody listens there; that would be the next complaint.
    top = ("top", "127.0.0.1:1", "--once", "--html")
    assert_clear_error(square(*top, tmp_path), str(tmp_path), "is a directory")
    assert_clear_error(square(*top, tmp_path / "missing" / "top.html"), "missing", "no such directory")
    alone = square("top", "--master", "127.0.0.1:1", "--html", tmp_path / "top.html")
    assert alone.returncode == 2
    assert "--html draws nodes" in alone.stderr
    assert list(tmp_path.iterdir()) == []


def shot_of(page: Path, folder: Path) -> Path:
    browser = shutil.which("chromium")
    assert browser is not None
    picture = folder / "page.png"
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1000,800"]
    command += [f"--user-data-dir={folder / 'browser'}", f"--screenshot={picture}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert picture.is_file(), done.stderr
    return picture


def colours_of(picture: Path) -> int:
    pixels = imread(picture)
    return len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0))


@pytest.mark.skipif(
    shutil.which("chromium") is None, reason="there is no chromium on PATH to draw a page with"
)
def test_a_browser_draws_the_page(tmp_path: Path) -> None:
    file, empty = tmp_path / "top.html", tmp_path / "empty.html"
    page = LivePage(file, 1.0)
    for _ in range(3):
        page.add(view([tenant("alice", 5e6), tenant("bob", 2e6)]))
    page.write(is_last=True)
    empty.write_text(document("empty", ""), encoding="utf-8")
    assert colours_of(shot_of(empty, tmp_path)) < NEW_COLOURS
    assert colours_of(shot_of(file, tmp_path)) > NEW_COLOURS


def test_top_writes_a_page_once(tmp_path: Path) -> None:
    file = tmp_path / "top.html"
    with two_nodes(tmp_path) as addresses:
        done = square("top", *addresses, "127.0.0.1:1", "--once", "--interval", "0.2", "--html", file)
    assert done.returncode == 0, done.stderr
    assert "links, Mbit/s" in done.stdout
    text = file.read_text(encoding="utf-8")
    tree = ElementTree.fromstring(text)
    assert [text_of(next(node.iter("text"))) for node in of_class(tree, "node")] == ["a", "b"]
    assert len(of_class(tree, "link")) == 2
    assert "127.0.0.1:1 does not answer" in text_of(tree)
    assert "refresh" not in text


def test_top_writes_a_page_while_it_runs(tmp_path: Path) -> None:
    file, scenario = tmp_path / "top.html", tmp_path / "pair.toml"
    scenario.write_text(SCENARIO, encoding="utf-8")
    with (
        package.Controller(package.Scenario.read(str(scenario))) as controller,
        pair(controller) as (a, b, broadcast),
        package.metrics.serve(a) as of_a,
        package.metrics.serve(b) as of_b,
    ):
        top = start("top", of_a.address, of_b.address, "--interval", "0.2", "--html", file)
        try:
            assert wait_until(file.exists, 20)
            deadline, seen = time.monotonic() + 20, set[str]()
            while not any(kind.startswith("link use") for kind in seen) and time.monotonic() < deadline:
                broadcast()
                # Whoever reads it reads all of it.
                tree = ElementTree.fromstring(file.read_text(encoding="utf-8"))
                seen |= {link.get("class", "") for link in of_class(tree, "link")}
            refreshing = file.read_text(encoding="utf-8")
        finally:
            top.send_signal(signal.SIGINT)
            printed, complaints = top.communicate(timeout=10)
    assert (top.returncode, complaints) == (0, "")
    assert "tenants, Mbit/s" in printed
    assert any(kind.startswith("link use") for kind in seen)
    assert '<meta http-equiv="refresh" content="1"/>' in refreshing
    text = file.read_text(encoding="utf-8")
    assert 'http-equiv="refresh"' not in text
    assert "the last time" in text
    tree = ElementTree.fromstring(text)
    assert "alice" in text_of(tree)
    assert of_class(tree, "dashed")
    assert of_class(tree, "line")


def test_a_picture_is_a_file_of_its_own() -> None:
    drawn = picture("a < b", [Series("tenant & co", [(0.0, 1.0), (1.0, 2.0)])], marks=[(0.5, "x < y")])
    root = ElementTree.fromstring(drawn)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    style = root.find("{http://www.w3.org/2000/svg}style")
    assert style is not None
    assert "--c1:" in (style.text or "")
    with pytest.raises(InvalidArgumentError, match="no value to draw"):
        picture("nothing", [Series("none", [])])
