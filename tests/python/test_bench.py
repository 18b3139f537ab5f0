"""`square bench`: the paper's figures."""

import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

import pytest
from commands import square
from square.bench import FIGURES, Measurement, Point, Size, measure, results, together
from square.bench.figures import POLICIES
from square.bench.session import NAMES
from square.cli.bench import BEYOND, PAPER
from square.run.progress import Silence

DATA = os.environ.get("SQUARE_DATA")
needs_zoo = pytest.mark.skipif(not DATA, reason="SQUARE_DATA names no folder")


def zoo() -> Path:
    return Path(DATA or "") / "topology-zoo"


def test_every_figure_has_points_by_its_seeds() -> None:
    for name in ("2a", "2b", "3c"):
        points = list(FIGURES[name].points(Size(seeds=2)))
        assert {point.seed for point in points} == {1, 2}
        assert len({(point.place, point.seed) for point in points}) == len(points)
        assert all([line.name for line in point.lines] == list(POLICIES) for point in points)
    once, again = (next(FIGURES["2a"].points(Size(seeds=1))) for _ in range(2))
    rates = [[link.capacity_bps for link in one.lines[0].scenario.topology.links] for one in (once, again)]
    assert rates[0] == rates[1]


@pytest.mark.parametrize("name", ["2a", "2b", "3c"])
def test_square_is_nowhere_slower_than_a_baseline_in_the_slowest_collective(name: str) -> None:
    for point in FIGURES[name].points(Size(seeds=1, is_quick=True)):
        check_order(point)


@needs_zoo
def test_nor_is_it_around_rings_of_the_zoo() -> None:
    for point in FIGURES["3b"].points(Size(seeds=2, topologies=zoo())):
        check_order(point)


@needs_zoo
def test_over_two_widest_paths_the_shortest_may_be_missing_and_exact_is_never_slower() -> None:
    for point in FIGURES["3a"].points(Size(seeds=3, topologies=zoo())):
        check_order(point, baselines=("mcf",))


def check_order(point: Point, baselines: tuple[str, ...] = ("shortest-path", "mcf")) -> None:
    planned = planned_lines(point)
    slowest = {line: max(one.planned_seconds) for line, one in planned.items()}
    assert slowest["square"] <= min(slowest[line] for line in baselines) * (1 + 1e-6)
    assert slowest["exact"] <= min(slowest[line] for line in POLICIES) * (1 + 1e-6)
    assert max(planned["exact"].bound_seconds) <= slowest["exact"] * (1 + 1e-6)


@pytest.mark.skipif(not DATA, reason="SQUARE_DATA names no folder")
def test_twenty_tenants_share_a_measured_network() -> None:
    regions = Path(DATA or "") / "inter-region" / "links.csv"
    (point,) = FIGURES["regions"].points(Size(seeds=1, regions=regions))
    planned = planned_lines(point)
    assert all(len(one.planned_seconds) == 20 for one in planned.values())
    slowest = {name: max(one.planned_seconds) for name, one in planned.items()}
    assert slowest["exact"] <= min(slowest.values()) * (1 + 1e-6)
    assert slowest["exact"] * 2 < slowest["shortest-path"]


def test_the_command_knows_what_there_is() -> None:
    assert (*PAPER, *BEYOND) == NAMES


@needs_zoo
def test_the_headline_of_the_paper() -> None:
    """Arpanet19706: maximum multi-commodity flow over square, in the mean of 20 seeds."""
    ratios = []
    for point in FIGURES["3a"].points(Size(seeds=20, is_quick=True, topologies=zoo())):
        planned = planned_lines(point, ("mcf", "square"))
        ratios.append(max(planned["mcf"].seconds) / max(planned["square"].seconds))
    assert statistics.mean(ratios) >= 3.5


@needs_zoo
def test_a_planned_all_reduce_is_twice_as_fast_as_a_ring() -> None:
    (point,) = FIGURES["3b"].points(Size(seeds=1, is_quick=True, topologies=zoo()))
    planned = planned_lines(point)
    assert max(planned["planned all-reduce"].seconds) * 2 <= max(planned["exact"].seconds)


def planned_lines(point: Point, names: Sequence[str] = ()) -> dict[str, Measurement]:
    """Those of these names, or all."""
    lines = [line for line in point.lines if not names or line.name in names]
    return {one.line: one for one in measure(point, lines, "plan", Silence())}


def test_a_point_is_run_and_its_bytes_compared() -> None:
    point = next(FIGURES["3c"].points(Size(seeds=1, is_quick=True, scale_bytes=0.01)))
    ((mcf, exact),) = together([line for line in point.lines if line.name in ("mcf", "exact")], "pace")
    for found, line in zip(measure(point, (mcf, exact), "pace", Silence()), (mcf, exact), strict=True):
        assert found.line == line.name
        assert len(found.measured_seconds) == len(found.planned_seconds) == 1
        assert found.seconds == found.measured_seconds
        assert found.ratio is not None
        assert found.busy is not None
        assert 0 <= found.busy <= 1  # counted in ticks of 10 ms
        assert Measurement.from_document(json.loads(json.dumps(found.to_document()))) == found


def test_lines_of_one_scenario_are_run_by_one_overlay() -> None:
    point = next(FIGURES["2a"].points(Size(seeds=1)))
    assert [len(lines) for lines in together(point.lines, "netns")] == [len(POLICIES)]
    assert [len(lines) for lines in together(point.lines, "plan")] == [1] * len(POLICIES)
    point = next(FIGURES["gloo"].points(Size(seeds=1)))
    assert [len(lines) for lines in together(point.lines, "netns")] == [1, 1]


@needs_zoo
def test_rings_are_run_one_by_one() -> None:
    (point,) = FIGURES["3b"].points(Size(seeds=1, is_quick=True, topologies=zoo()))
    assert [len(lines) for lines in together(point.lines, "netns")] == [1] * len(point.lines)


def test_the_command_writes_reports_and_goes_on_where_it_was(tmp_path: Path) -> None:
    result = square("bench", "2a", "--quick", "--into", tmp_path, "--json")
    assert result.returncode == 0, result.stderr
    assert "8 of 8: figure 2a, 10, seed 1, exact" in result.stderr
    document = json.loads(result.stdout)
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == document
    cells = document["figures"]["2a"]["cells"]
    assert [(cell["place"], cell["line"]) for cell in cells[:4]] == [("1", policy) for policy in POLICIES]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "data:image/svg+xml;base64," in page
    assert "http" not in page.replace("http-equiv", "")
    assert (tmp_path / "figure-2a.svg").read_bytes().startswith(b"<?xml")
    # One was being written when the program was killed, another not yet.
    file = tmp_path / "results.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:30], encoding="utf-8")
    again = square("bench", "2a", "--quick", "--into", tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stderr.splitlines() == ["square bench: 8 of 8: figure 2a, 10, seed 1, exact"]
    assert "Figure 2a: Broadcasts of 1e8 bits on a full mesh of 8" in again.stdout
    assert len(list(results.measurements(tmp_path))) == 8


def test_mistakes_are_named(tmp_path: Path) -> None:
    without = square("bench", "3a", "--into", tmp_path, SQUARE_DATA="")
    assert without.returncode == 1
    assert "--topologies" in without.stderr
    missing = square("bench", "3a", "--into", tmp_path, "--topologies", tmp_path / "none")
    assert missing.returncode == 1
    assert "Arpanet19706.gml" in missing.stderr
    left_out = square("bench", "all", "--quick", "--into", tmp_path, SQUARE_DATA="")
    assert left_out.returncode == 0
    for name, why in (("3a", "--topologies"), ("regions", "--regions"), ("gloo", "run"), ("relay", "run")):
        assert f"{name} is left out: it" in left_out.stderr
        assert why in next(line for line in left_out.stderr.splitlines() if f"{name} is left out" in line)
    only_run = square("bench", "relay", "--into", tmp_path)
    assert only_run.returncode == 1
    assert "relay: it is only run: --emulate netns" in only_run.stderr
    (tmp_path / "results.jsonl").write_text('{"figure": "2a"}\n', encoding="utf-8")
    broken = square("bench", "2a", "--into", tmp_path)
    assert broken.returncode == 1
    assert "results.jsonl, line 1" in broken.stderr
    assert square("bench", "9z").returncode == 2
