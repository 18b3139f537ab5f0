"""`square topology`, `square paths`, and topologies in Python."""

import json
import math
from pathlib import Path

import pytest
from commands import TRIANGLE, assert_clear_error, square
from square import Topology
from square.errors import InvalidArgumentError

# From "left" everything can be reached, from "right" nothing; "far" is alone.
ONE_WAY = """\
from,to,capacity_mbps,capacity_stddev_mbps,latency_ms,price_usd_per_gb
left,middle,40,4,5,0.02
middle,left,20,,7,0.01
middle,right,0.000001,,1,0
left,right,?,,3,0.5
"""


@pytest.fixture
def one_way(tmp_path: Path) -> Path:
    file = tmp_path / "one_way.csv"
    file.write_text(ONE_WAY, encoding="utf-8")
    return file


def test_topology_shows_what_was_read(one_way: Path) -> None:
    result = square("topology", one_way)
    assert result.returncode == 0, result.stderr
    for fragment in (
        "one_way.csv: 3 nodes, 4 directed links",
        "Summary",
        "its standard deviation, Mbit/s",
        "not strongly connected: 2 groups",
        "  no path from right to left, middle",
        "Nodes",
        "Links",
        "no limit",
        "1e-06",
    ):
        assert fragment in result.stdout, result.stdout
    assert "no path from left" not in result.stdout


def test_json_has_everything_and_its_figures_are_right(one_way: Path) -> None:
    result = square("topology", one_way, "--json", "--limit", "1")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["format"] == "square.topology/1"
    assert (document["node_count"], document["link_count"]) == (3, 4)
    summary = document["summary"]
    assert summary["capacity_mbps"] == {"least": 1e-6, "median": 20, "largest": 40, "without": 1}
    assert summary["latency_ms"] == {"least": 1, "median": 4, "largest": 7, "without": 0}
    assert summary["price_usd_per_gb"]["median"] == pytest.approx(0.015)
    assert summary["egress_mbps"] == {"least": None, "median": None, "largest": None, "without": 3}
    assert summary["links_out"] == {"least": 0, "median": 2, "largest": 2, "without": 0}
    assert summary["links_in"] == {"least": 1, "median": 1, "largest": 2, "without": 0}
    assert document["strongly_connected"] is False
    assert document["groups"] == [["left", "middle"], ["right"]]
    assert document["unreachable"] == [{"from_group": 1, "to_groups": [0]}]
    assert [node["name"] for node in document["nodes"]] == ["left", "middle", "right"]
    assert document["links"][0] == {
        "from": "left",
        "to": "middle",
        "capacity_mbps": 40.0,
        "capacity_stddev_mbps": 4.0,
        "latency_ms": 5.0,
        "price_usd_per_gb": 0.02,
    }
    assert document["links"][3]["capacity_mbps"] is None


def test_tables_are_cut_short_and_say_so(one_way: Path) -> None:
    result = square("topology", one_way, "--limit", "1")
    assert "Nodes (1 of 3; --limit shows more" in result.stdout
    assert "Links (1 of 4; --limit shows more" in result.stdout


def test_of_a_scenario_the_overlay_is_shown(tmp_path: Path) -> None:
    for number, overlay in enumerate(
        (
            TRIANGLE,
            'overlay = { mesh = ["a", "b", "c"], capacity_mbps = 40 }\n',
            '\ufeff[overlay]\nmesh = ["a", "b", "c"]\ncapacity_mbps = 40\n',
        )
    ):
        file = tmp_path / f"scenario{number}.toml"
        file.write_text(overlay, encoding="utf-8")
        result = square("topology", file, "--json")
        assert result.returncode == 0, result.stderr
        document = json.loads(result.stdout)
        assert [node["name"] for node in document["nodes"]] == ["a", "b", "c"]
        assert document["summary"]["capacity_mbps"]["largest"] == 40
        assert document["strongly_connected"] is True
        assert "strongly connected: every node reaches every other" in square("topology", file).stdout


def test_every_format_gives_the_same(tmp_path: Path) -> None:
    texts = {
        "t.csv": "from,to,capacity_mbps\na,b,5\nb,a,5\n",
        "t.toml": "".join(
            f'[[link]]\nfrom = "{tail}"\nto = "{head}"\ncapacity_mbps = 5\n' for tail, head in ("ab", "ba")
        ),
        "t.gml": 'graph [ node [ id 0 label "a" ] node [ id 1 label "b" ]\n'
        "edge [ source 0 target 1 bandwidth 5e6 ] ]\n",
        "t.graphml": '<graphml><key id="k" for="edge" attr.name="bandwidth"/><graph edgedefault="undirected">'
        '<node id="a"/><node id="b"/><edge source="a" target="b"><data key="k">5e6</data></edge>'
        "</graph></graphml>\n",
    }
    documents = []
    for name, text in texts.items():
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        document = json.loads(square("topology", file, "--json").stdout)
        del document["file"]
        documents.append(document)
    assert documents[0]["link_count"] == 2
    assert documents.count(documents[0]) == len(texts)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.toml", b"[[link]]\nfrom = 'a'\nto = \x00", "a.toml:3: a zero byte"),
        ("a.toml", b"[overlay]\nmesh = ['a']\ncapacity = 5\n", "a.toml:3: overlay.capacity: unknown key"),
        ("a.toml", b"\xff\xfe[\x00", "a.toml:1: the text is UTF-16"),
        ("a.csv", b"from,to\n\xff,b\n", "a.csv:2: from: a node's name is not UTF-8"),
        (
            "a.csv",
            b"from,to,capacity_mbps\na,b,\xff\xff\n",
            "a.csv:2: capacity_mbps: must be a speed with its unit",
        ),
        ("a.gml", b'graph [ "\xff" ]', "a.gml:1: found"),
        ("a.graphml", b"\x89PNG\r\n\x1a\n\x00", "a.graphml:3: a zero byte: this is not a text file"),
        ("a.graphml", b"<graphml>\n<graph", "a.graphml:2: not well-formed XML, or cut off"),
        ("a.txt", b"", 'ends in ".txt": use .gml, .graphml, .csv or .toml'),
    ],
)
def test_files_that_cannot_be_read_are_named(
    tmp_path: Path, name: str, content: bytes, expected: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    assert_clear_error(square("topology", file), expected)
    assert_clear_error(square("paths", file, "a", "b"), expected)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for name in ("none.csv", "none.toml"):
        assert_clear_error(square("topology", tmp_path / name), name, "no such file")
    (tmp_path / "folder.toml").mkdir()
    assert_clear_error(square("topology", tmp_path / "folder.toml"), "folder.toml", "directory")


def test_paths_in_both_orders(one_way: Path) -> None:
    result = square("paths", one_way, "left", "right")
    assert result.returncode == 0, result.stderr
    assert "left to right: the 2 shortest paths; there are no more" in result.stdout
    assert "left > middle > right" in result.stdout
    shortest = json.loads(square("paths", one_way, "left", "right", "--json").stdout)
    assert shortest["order"] == "shortest"
    assert shortest["paths"] == [
        {
            "nodes": ["left", "right"],
            "hops": 1,
            "width_mbps": None,
            "latency_ms": 3.0,
            "price_usd_per_gb": 0.5,
        },
        {
            "nodes": ["left", "middle", "right"],
            "hops": 2,
            "width_mbps": 1e-6,
            "latency_ms": pytest.approx(6),
            "price_usd_per_gb": 0.02,
        },
    ]
    one = json.loads(square("paths", one_way, "left", "right", "--json", "--k", "1").stdout)
    assert one["paths"] == shortest["paths"][:1]


def test_widest_paths_come_by_width(tmp_path: Path) -> None:
    file = tmp_path / "triangle.toml"
    file.write_text(TRIANGLE, encoding="utf-8")
    document = json.loads(square("paths", file, "a", "c", "--widest", "--json").stdout)
    assert document["order"] == "widest"
    assert [path["nodes"] for path in document["paths"]] == [["a", "b", "c"], ["a", "c"]]
    assert [path["width_mbps"] for path in document["paths"]] == [40, 4]
    assert "--k lists more" in square("paths", file, "a", "c", "--k", "1").stdout


def test_no_path_is_exit_code_1(one_way: Path) -> None:
    result = square("paths", one_way, "right", "left")
    assert result.returncode == 1
    assert (
        result.stdout
        == 'no path leads from "right" to "left": 0 of 2 other nodes can be reached from there\n'
    )
    document = square("paths", one_way, "right", "left", "--json")
    assert document.returncode == 1
    assert json.loads(document.stdout)["paths"] == []


def test_unknown_nodes_are_answered_with_near_names(one_way: Path) -> None:
    assert_clear_error(square("paths", one_way, "lefft", "right"), 'no node "lefft"; the nearest: "left"')
    assert_clear_error(square("paths", one_way, "left", "RIGHT"), 'no node "RIGHT"; the nearest: "right"')
    assert_clear_error(square("paths", one_way, "left", "qqqqq"), 'no node "qqqqq"; `square topology')
    assert_clear_error(square("paths", one_way, "left", "left"), 'the same node, "left"')


def test_help_and_wrong_usage(one_way: Path) -> None:
    for command in ("topology", "paths"):
        result = square(command, "--help")
        assert result.returncode == 0
        assert f"example:\n  square {command}" in result.stdout
        assert command in square("--help").stdout
    for arguments in (
        ("topology",),
        ("topology", one_way, "--limit", "0"),
        ("paths", one_way, "left"),
        ("paths", one_way, "left", "right", "--k", "0"),
        ("paths", one_way, "left", "right", "--k", "10001"),
    ):
        result = square(*arguments)
        assert result.returncode == 2, arguments
        assert "Traceback" not in result.stderr


def test_reachability_in_python() -> None:
    topology = Topology()
    for name in "abc":
        topology.add_node(name)
    for tail, head in (("a", "b"), ("b", "a"), ("b", "c")):
        topology.add_link(tail, head)
    found = topology.reachability()
    assert found.groups == [["a", "b"], ["c"]]
    assert found.unreachable == [[], [0]]


def test_too_many_groups_to_compare(tmp_path: Path) -> None:
    file = tmp_path / "chain.csv"
    rows = [f"{number},{number + 1}" for number in range(1001)]
    file.write_text("\n".join(["from,to", *rows]), encoding="utf-8")
    result = square("topology", file, "--limit", "2")
    assert "not strongly connected: 1002 groups" in result.stdout
    assert "too many groups to say" in result.stdout
    assert json.loads(square("topology", file, "--json").stdout)["unreachable"] is None


def test_standard_deviations_in_python() -> None:
    topology = Topology.full_mesh(["a", "b"], capacity_bps=1e6, capacity_stddev_bps=3e5)
    topology.add_link("a", "b", capacity_bps=1e6, capacity_stddev_bps=4e5)
    deviations = {link.from_node: link.capacity_stddev_bps for link in topology.links}
    assert deviations == {"a": pytest.approx(5e5), "b": 3e5}
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidArgumentError, match="standard deviation"):
            topology.add_link("a", "b", capacity_stddev_bps=bad)
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidArgumentError, match="latency"):
            topology.add_link("a", "b", latency=bad)
