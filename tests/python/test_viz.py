"""Pictures of plans."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import hand_made_plans as hand_made
import numpy as np
import pytest
import square as package
from commands import TRIANGLE, assert_clear_error, square
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_rgba
from square import viz
from square.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from square.viz import layout
from square.viz.look import IDLE_COLOUR


def plan_of(document: dict[str, Any]) -> package.Plan:
    return package.Plan.from_json(hand_made.text(document))


def lines_of(figure: Any) -> tuple[LineCollection | None, LineCollection]:
    """Of idle links, if any are drawn, and of links in use."""
    found = [item for item in figure.axes[0].collections if isinstance(item, LineCollection)]
    assert 1 <= len(found) <= 2
    return (found[0] if len(found) == 2 else None), found[-1]


def words_of(figure: Any) -> str:
    parts = [figure.get_suptitle()]
    parts += [label.get_text() for legend in figure.legends for label in legend.get_texts()]
    parts += [label.get_text() for axes in figure.axes for label in axes.texts]
    return "\n".join(parts)


def assert_legend_is_inside(figure: Any) -> None:
    """At the resolution that files have, too."""
    for dots in (100, 150):
        figure.set_dpi(dots)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        (legend,) = figure.legends
        box = legend.get_window_extent(canvas.get_renderer())
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.width
        assert box.y1 <= figure.bbox.height


def test_width_is_load_and_colour_is_used_share() -> None:
    figure = viz.plot_plan(plan_of(hand_made.two_levels()))
    idle, busy = lines_of(figure)
    assert idle is None
    widths = busy.get_linewidths()
    # The least used first: b -> a with 10 of 50; then those that are full, with 100, 30 and 10.
    assert len(widths) == 4
    assert widths[1:] == pytest.approx(sorted(widths[1:], key=lambda width: -width))
    by_load = {100: widths[1], 30: widths[2], 10: widths[3]}
    assert widths[0] == pytest.approx(by_load[10])
    assert (by_load[30] - by_load[10]) / (by_load[100] - by_load[10]) == pytest.approx(20 / 90)
    colours = [tuple(colour) for colour in busy.get_colors()]
    assert len(set(colours[1:])) == 1
    assert colours[0] != colours[1]


def test_both_directions_are_drawn_apart() -> None:
    _, busy = lines_of(viz.plot_plan(plan_of(hand_made.all_reduce())))
    there, back = (np.asarray(path.vertices) for path in busy.get_paths())
    gap = np.linalg.norm(there - back[::-1], axis=1)
    assert gap[len(gap) // 2] > 0.05
    # Each on the right of its way.
    for curve in (there, back):
        way, middle = curve[-1] - curve[0], curve[len(curve) // 2] - curve[0]
        assert way[0] * middle[1] - way[1] * middle[0] < 0


def test_idle_links_are_thin_and_left_out_of_large_meshes() -> None:
    idle, busy = lines_of(viz.plot_plan(plan_of(hand_made.mesh(8, 4))))
    assert idle is not None
    assert len(idle.get_paths()) == 52
    assert tuple(idle.get_colors()[0]) == to_rgba(IDLE_COLOUR)
    assert len(busy.get_paths()) == 4
    figure = viz.plot_plan(plan_of(hand_made.mesh(60, 120)))
    idle, busy = lines_of(figure)
    assert idle is None
    assert len(busy.get_paths()) == 120
    assert "3420 idle links, not drawn" in words_of(figure)


def test_rings_show_node_limits() -> None:
    def patches(document: dict[str, Any]) -> list[PatchCollection]:
        collections = viz.plot_plan(plan_of(document)).axes[0].collections
        return [item for item in collections if isinstance(item, PatchCollection)]

    assert len(patches(hand_made.two_levels())) == 1  # the nodes
    rings = patches(hand_made.node_limit())[0]
    assert len(rings.get_paths()) == 1
    full = lines_of(viz.plot_plan(plan_of(hand_made.two_levels())))[1].get_colors()[-1]
    assert tuple(rings.get_facecolor()[0]) == pytest.approx(tuple(full))


def test_title_and_labels() -> None:
    document = hand_made.two_levels()
    document["tenants"][0]["name"] = document["collectives"][0]["tenant"] = "a$b$"
    figure = viz.plot_plan(plan_of(document))
    found = words_of(figure)
    assert "policy exact: minimum 20.000, total 120.000 Mbit/s" in found
    assert r"0 a\$b\$ 20.000, 1 bob 20.000, 2 carol 80.000" in found
    assert "100 Mbit/s" in found
    assert {label.get_text() for label in figure.axes[0].texts} == {"a", "b", "c"}
    assert "114 more" in words_of(viz.plot_plan(plan_of(hand_made.mesh(60, 120))))
    assert "lp rates, no streams" in words_of(viz.plot_plan(plan_of(hand_made.without_streams())))


@pytest.mark.parametrize("name", ["abilene", "exact", "mesh"])
def test_the_legend_is_within_the_figure(name: str, repository: Path) -> None:
    figure = viz.plot_plan(package.plan(repository / "examples" / f"{name}.toml"))
    assert_legend_is_inside(figure)


def test_the_legend_is_within_the_figure_with_rings_and_idle_links() -> None:
    document = hand_made.mesh(8, 4)
    for node in document["nodes"]:
        node["egress_mbps"] = 1000.0
    figure = viz.plot_plan(plan_of(document))
    assert "52 idle links" in words_of(figure)
    assert "ring: node limits" in words_of(figure)
    assert_legend_is_inside(figure)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_plan_gives_the_same_file(ending: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"first.{ending}", tmp_path / f"second.{ending.upper()}"
    for file in (first, second):
        viz.plot_plan(plan_of(hand_made.ring(12)), file)
    content = first.read_bytes()
    assert content.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending])
    assert content == second.read_bytes()
    assert {file.name for file in tmp_path.iterdir()} == {first.name, second.name}


def test_empty_overlays_are_drawn(tmp_path: Path) -> None:
    for nodes in ("", '"a"', '"a", "b"'):
        file = tmp_path / "overlay.toml"
        file.write_text(f"[overlay]\nmesh = [{nodes}]\n", encoding="utf-8")
        if nodes:
            viz.plot_plan(package.plan(file), tmp_path / "overlay.png")
    viz.plot_plan(plan_of(hand_made.plan({}, [], [])), tmp_path / "none.png")


def links_between(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [link for a, b in pairs for link in ((a, b), (b, a))]


def test_sparse_overlays_are_spread_like_their_hops() -> None:
    # A path of 12 lies straight, in even steps.
    path = layout.positions(12, links_between([(i, i + 1) for i in range(11)]))
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    assert steps == pytest.approx(np.full(11, steps.mean()), rel=0.1)
    assert np.linalg.norm(path[0] - path[-1]) == pytest.approx(2.0, abs=1e-6)
    # A grid of 6 by 6: the mean error of distances against hops is small.
    cells = [
        (6 * y + x, 6 * (y + dy) + x + dx)
        for y in range(6)
        for x in range(6)
        for dx, dy in ((1, 0), (0, 1))
        if x + dx < 6 and y + dy < 6
    ]
    grid = layout.positions(36, links_between(cells))
    away = np.linalg.norm(grid[:, None] - grid[None, :], axis=2)
    assert away[~np.eye(36, dtype=bool)].min() > 0.15
    assert np.array_equal(grid, layout.positions(36, links_between(cells)))


def test_what_is_apart_is_drawn_apart() -> None:
    pairs = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7)]
    places = layout.positions(9, links_between(pairs))
    away = np.linalg.norm(places[:, None] - places[None, :], axis=2)
    assert away[~np.eye(9, dtype=bool)].min() > 0.1
    assert np.abs(places).max() <= 1.0 + 1e-9


def test_dense_overlays_are_put_on_a_circle() -> None:
    places = layout.positions(10, [(a, b) for a in range(10) for b in range(10) if a != b])
    assert np.linalg.norm(places, axis=1) == pytest.approx(np.ones(10))
    assert places[0] == pytest.approx([0.0, 1.0], abs=1e-12)


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    plan = plan_of(hand_made.reduce())
    with pytest.raises(InvalidArgumentError, match=r"ends in \.pdf, \.png, \.svg"):
        viz.plot_plan(plan, tmp_path / "plan.jpg")
    with pytest.raises(NotFoundError, match="no such directory"):
        viz.plot_plan(plan, tmp_path / "none" / "plan.png")
    (tmp_path / "plan.png").mkdir()
    with pytest.raises(InvalidArgumentError, match="is a directory"):
        viz.plot_plan(plan, tmp_path / "plan.png")


def test_matplotlib_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viz, "find_spec", lambda name: None)
    with pytest.raises(FailedPreconditionError, match=r'pip install "square\[plot\]"'):
        viz.plot_plan(plan_of(hand_made.reduce()))


def test_nothing_loads_matplotlib_but_a_picture() -> None:
    code = (
        "import square.cli, square.viz, sys; sys.exit('matplotlib' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False, timeout=60).returncode == 0


def test_command_plots(tmp_path: Path) -> None:
    file = tmp_path / "triangle.toml"
    file.write_text(TRIANGLE, encoding="utf-8")
    picture = tmp_path / "plan.svg"
    result = square("plan", file, "--plot", picture)
    assert result.returncode == 0, result.stderr
    assert "minimum rate" in result.stdout
    assert "<svg" in picture.read_text(encoding="utf-8")
    assert_clear_error(square("plan", file, "--plot", tmp_path / "plan.txt"), "plan.txt", ".svg")
    assert_clear_error(square("plan", file, "--plot", picture, "--frontier", "3"), "--frontier")
