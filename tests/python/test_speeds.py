"""Speeds of links in topology files: the table of the documentation, and every file of the Topology Zoo."""

import json
import re
from pathlib import Path

import pytest
import square as package
from commands import assert_clear_error, square
from square.errors import InvalidArgumentError

ROOT = Path(__file__).resolve().parents[2]
LEAST_FORMS = 60
NONE, REFUSED = "none", "refused"


def forms() -> list[tuple[str, str]]:
    """Each row of the table: what is written, and what it is read as."""
    page = (ROOT / "docs" / "scenario.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(.*)` \| (\S+) \|$", page.split("| written | read as |")[1], re.MULTILINE)


def test_the_table_of_the_documentation_is_long_enough() -> None:
    assert len(forms()) >= LEAST_FORMS


@pytest.mark.parametrize(("written", "read_as"), forms())
def test_a_speed_is_read_or_refused_as_the_documentation_says(
    written: str, read_as: str, tmp_path: Path
) -> None:
    csv, gml, graphml = tmp_path / "a.csv", tmp_path / "a.gml", tmp_path / "a.graphml"
    csv.write_text(f'from,to,bandwidth\na,b,"{written}"\n', encoding="utf-8")
    gml.write_text(
        'graph [ node [ id 0 label "a" ] node [ id 1 label "b" ]\n'
        f'edge [ source 0 target 1 bandwidth "{written.replace("<", "&lt;")}" ] ]',
        encoding="utf-8",
    )
    graphml.write_text(
        '<graphml><key id="k" for="edge" attr.name="bandwidth"/><graph edgedefault="directed">'
        '<node id="a"/><node id="b"/><edge source="a" target="b">'
        f'<data key="k">{written.replace("<", "&lt;")}</data></edge></graph></graphml>',
        encoding="utf-8",
    )
    for file in (csv, gml, graphml):
        if read_as == REFUSED:
            with pytest.raises(InvalidArgumentError, match=re.escape(str(file))):
                package.Topology.read(file)
            continue
        capacity = package.Topology.read(file).links[0].capacity_bps
        expected = float("inf") if read_as == NONE else float(read_as) * 1e6
        assert capacity == pytest.approx(expected, rel=1e-12)


# An independent reading of the Zoo: what looks like a number with a unit, or like the name of a standard.
_LOOKS_LIKE_A_SPEED = re.compile(
    r"\d\s*[KMGT]?(?:b|bit)(?:ps|/s)|\b\d+(?:\.\d+)?\s*[KMG]\b|\d\s*GB/s|\bOC-?\d|\bSTM-?\d|\b[TE][13]\b|\bDS-?\d"
    r"|\bGbE\b|\d\s*GE|\bGigE\b|\bGE\b",
    re.IGNORECASE,
)


def _edges(text: str) -> list[dict[str, str]]:
    found = re.findall(r"^  edge \[\n(.*?)^  \]", text, re.MULTILINE | re.DOTALL)
    return [dict(re.findall(r'^    (\w+) "?(.*?)"?$', edge, re.MULTILINE)) for edge in found]


def test_no_speed_of_the_topology_zoo_is_ignored(data_dir: Path) -> None:
    files = sorted((data_dir / "topology-zoo").glob("*.gml"))
    assert len(files) == 154
    with_raw = by_label = 0
    for file in files:
        text = file.read_text(encoding="latin-1").replace("\r", "")
        topology = package.Topology.read(file)
        ids = re.findall(r"^  node \[\n    id (-?\d+)", text, re.MULTILINE)
        names = dict(zip(ids, (node.name for node in topology.nodes), strict=True))
        capacities = {(link.from_node, link.to_node): link.capacity_bps for link in topology.links}
        between: dict[frozenset[str], list[dict[str, str]]] = {}
        for edge in _edges(text):
            ends = frozenset((names[edge["source"]], names[edge["target"]]))
            if len(ends) == 2:
                between.setdefault(ends, []).append(edge)
        for ends, edges in between.items():
            raw = [float(edge["LinkSpeedRaw"]) for edge in edges if "LinkSpeedRaw" in edge]
            labels = [edge.get("LinkLabel", "") for edge in edges if "LinkSpeedRaw" not in edge]
            told = [label for label in labels if _LOOKS_LIKE_A_SPEED.search(label)]
            with_raw, by_label = with_raw + len(raw), by_label + len(told)
            a, b = ends
            for way in ((a, b), (b, a)):
                if told:
                    assert sum(raw) < capacities[way] < float("inf"), (file.name, edges)
                else:
                    assert capacities[way] == pytest.approx(sum(raw) or float("inf")), (file.name, edges)
    print(f"{with_raw} edges with LinkSpeedRaw, {by_label} with a speed in their label alone")
    assert with_raw > 2000
    assert by_label > 500


MININET = 'graph [ node [ id 0 label "a" ] node [ id 1 label "b" ] edge [ source 0 target 1 bandwidth 100 ] ]'


def test_units_are_said_on_the_command_line_in_python_and_in_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "net.gml").write_text(MININET, encoding="utf-8")
    scenario = tmp_path / "s.toml"
    text = (
        '[overlay]\ntopology = "net.gml"\n{}\n'
        '[[collective]]\ntenant = "t"\nop = "broadcast"\nroot = "a"\nbytes = 9\n'
    )
    scenario.write_text(text.format(""), encoding="utf-8")
    for command in (
        ("topology", tmp_path / "net.gml"),
        ("topology", scenario),
        ("paths", tmp_path / "net.gml", "a", "b"),
        ("plan", scenario),
        ("simulate", scenario),
        ("controller", "--topology", tmp_path / "net.gml"),
    ):
        assert_clear_error(square(*command), "net.gml:1", "--units Mbit/s", '"100 Mbit/s"')
    shown = json.loads(square("topology", tmp_path / "net.gml", "--units", "Mbps", "--json").stdout)
    assert shown["links"][0]["capacity_mbps"] == 100
    planned = json.loads(square("plan", scenario, "--units", "MB/s", "--json").stdout)
    assert planned["links"][0]["capacity_mbps"] == 800
    assert package.Topology.read(tmp_path / "net.gml", units="kbit/s").links[0].capacity_bps == 100e3
    scenario.write_text(text.format('units = "Gbit/s"'), encoding="utf-8")
    assert package.Scenario.read(scenario).topology.links[0].capacity_bps == 100e9
    assert package.Scenario.read(scenario, units="Mbit/s").topology.links[0].capacity_bps == 100e6
    with pytest.raises(InvalidArgumentError, match='units: "parsec" is not a unit'):
        package.Topology.read(tmp_path / "net.gml", units="parsec")
    scenario.write_text(text.format('units = "parsec"'), encoding="utf-8")
    with pytest.raises(InvalidArgumentError, match=r"s\.toml:3: overlay\.units: \"parsec\" is not a unit"):
        package.Scenario.read(scenario)


def test_a_scenario_in_the_place_of_a_topology_is_named(tmp_path: Path) -> None:
    scenario, topology = tmp_path / "s.toml", tmp_path / "t.toml"
    scenario.write_text('[overlay]\nmesh = ["a", "b"]\n', encoding="utf-8")
    topology.write_text('[[link]]\nfrom = "a"\nto = "b"\n', encoding="utf-8")
    assert_clear_error(square("controller", "--topology", scenario), "is a scenario, not a topology")
    assert_clear_error(square("controller", topology), "is a topology, not a scenario")
