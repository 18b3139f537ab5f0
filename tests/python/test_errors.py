"""Bad input gets a clear error, a non-zero exit, and no traceback."""

import socket
import time
from pathlib import Path

import pytest
import square as package
from commands import TRIANGLE, assert_clear_error, square
from square import errors

REPLACED = [
    pytest.param('from = "c"', 'from = "c"\ncapacity_mbps = 0', ["capacity_mbps"], id="zero capacity"),
    pytest.param('from = "c"', 'from = "c"\ncapacity_mbps = -1', ["capacity_mbps"], id="negative capacity"),
    pytest.param('from = "c"', 'from = "c"\ncapacity_mbps = nan', ["capacity_mbps"], id="NaN capacity"),
    pytest.param('root = "a"', 'root = "z"', ["collective.root", "unknown node", "z"], id="unknown root"),
    pytest.param('["b", "a"]', '["b", "z"]', ["collective.members", "unknown node"], id="unknown member"),
    pytest.param('["b", "a"]', '["b", "b"]', ["collective.members", "b"], id="member twice"),
    pytest.param('["b", "a"]', "[]", ["collective.members", "empty"], id="empty membership"),
    pytest.param('["b", "a"]', '["a", "c"]', ["collective.root", "members"], id="root no member"),
    pytest.param("[[tenant]]", '[[tenant]]\nname = "alice"\n[[tenant]]', ["alice"], id="duplicate tenant"),
    pytest.param("weight = 2.0", "weight = -2.0", ["tenant.weight"], id="negative weight"),
    pytest.param("200_000", "-1", ["collective.bytes"], id="negative bytes"),
    pytest.param("200_000", '"many"', ["collective.bytes"], id="bytes of another type"),
    pytest.param("200_000", "", ["triangle.toml:"], id="unreadable TOML"),
    pytest.param("weight = 2.0", "wieght = 2.0", ["wieght", "unknown key"], id="misspelt key"),
    pytest.param('op = "broadcast"', 'op = "shout"', ["collective.op", "shout"], id="unknown operation"),
    pytest.param('from = "b"\nto = "c"', 'from = "c"\nto = "b"', ["c"], id="no path"),
]


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "triangle.toml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(("old", "new", "fragments"), REPLACED)
def test_bad_scenario(old: str, new: str, fragments: list[str], tmp_path: Path) -> None:
    text = TRIANGLE.replace(old, new, 1)
    if fragments == ["c"]:
        text = text.replace('from = "a"\nto = "c"\ncapacity_mbps = 4', 'from = "c"\nto = "b"')
    result = square("plan", written(tmp_path, text))
    assert_clear_error(result, "error: ", *fragments)


def test_the_line_of_a_mistake_is_named(tmp_path: Path) -> None:
    text = TRIANGLE.replace("weight = 2.0", "weight = 0")
    line = text[: text.index("weight = 0")].count("\n") + 1
    assert_clear_error(square("plan", written(tmp_path, text)), f"triangle.toml:{line}: tenant.weight")


def test_duplicate_names_of_nodes(tmp_path: Path) -> None:
    text = '[[overlay.node]]\nname = "a"\n[[overlay.node]]\nname = "a"\n' + TRIANGLE
    assert_clear_error(square("plan", written(tmp_path, text)), '"a"')


@pytest.mark.parametrize("command", ["plan", "run", "controller"])
def test_missing_scenario(command: str, tmp_path: Path) -> None:
    assert_clear_error(square(command, tmp_path / "none.toml"), "none.toml")


def test_missing_topology(tmp_path: Path) -> None:
    file = written(tmp_path, '[overlay]\ntopology = "nowhere.gml"\n')
    assert_clear_error(square("plan", file), "nowhere.gml")
    assert_clear_error(square("controller", "--topology", tmp_path / "none.csv"), "none.csv")


def test_unknown_policy_and_paths(tmp_path: Path) -> None:
    file = written(tmp_path, TRIANGLE)
    assert_clear_error(square("plan", file, "--policy", "best"), '"best"', "shortest-path")
    assert_clear_error(square("run", file, "--compare", "square,best"), '"best"')
    assert_clear_error(square("plan", file, "--paths", "scenic:2"), "scenic")


def test_missing_input(tmp_path: Path) -> None:
    file = written(tmp_path, TRIANGLE)
    assert_clear_error(square("run", file, "--input", tmp_path / "none.bin"), "none.bin", "no such file")
    assert_clear_error(square("run", file, "--input", tmp_path), "cannot be read")


def test_run_needs_something_that_it_can_run(tmp_path: Path) -> None:
    overlay = TRIANGLE[: TRIANGLE.index("[[tenant]]")]
    assert_clear_error(square("run", written(tmp_path, overlay)), "nothing to run")
    gather = overlay + '[[collective]]\ntenant = "t"\nop = "all_gather"\nbytes = 1\n'
    assert_clear_error(
        square("run", written(tmp_path, gather)), "all_gather", "broadcast, reduce, all_reduce only"
    )
    names = ", ".join(f'"n{number}"' for number in range(129))
    broadcast = '[[collective]]\ntenant = "t"\nop = "broadcast"\nroot = "n0"\nbytes = 1\n'
    mesh = f"[overlay]\nmesh = [{names}]\n{broadcast}"
    assert_clear_error(square("run", written(tmp_path, mesh)), "129 nodes", "at most 128")
    huge = TRIANGLE.replace("400_000", "400_000_000_000_000")
    assert_clear_error(square("run", written(tmp_path, huge)), "free", "--scale-bytes")


def test_a_collective_without_a_rate_is_not_run(tmp_path: Path) -> None:
    # The most for both together is the most for bob: alice shares every link to a with him.
    text = """
[overlay]
capacity_mbps = 10
[[overlay.link]]
from = "a"
to = "b"
[[overlay.link]]
from = "b"
to = "c"
[[collective]]
tenant = "alice"
op = "broadcast"
root = "a"
bytes = 1000
[[collective]]
tenant = "bob"
op = "broadcast"
root = "a"
members = ["a", "b"]
bytes = 1000
[[collective]]
tenant = "carol"
op = "broadcast"
root = "b"
members = ["b", "c"]
bytes = 1000
"""
    result = square("run", written(tmp_path, text), "--policy", "max-throughput")
    assert_clear_error(result, "max-throughput", "collective 0", "no rate")


def test_no_controller() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        begin = time.monotonic()
        result = square("node", "--name", "a", "--controller", address)
        assert_clear_error(result, address)
        assert time.monotonic() - begin < 10


def test_identities(tmp_path: Path) -> None:
    node = ("node", "--name", "a", "--controller", "127.0.0.1:1")
    assert_clear_error(square(*node, "--identity", tmp_path), "identity.pem")
    assert_clear_error(square("controller", "--bind", "0.0.0.0:0"), "square ca init", "--insecure")
    gone = square(*node, "--token-file", tmp_path / "token")
    assert gone.returncode == 2
    assert "identities take its place" in gone.stderr
    assert_clear_error(square(*node, SQUARE_TOKEN="secret"), "SQUARE_TOKEN", "identities take its place")


def test_a_traceback_for_those_who_ask(tmp_path: Path) -> None:
    result = square("plan", tmp_path / "none.toml", SQUARE_DEBUG="1")
    assert result.returncode == 1
    assert "Traceback" in result.stderr


def test_every_code_has_a_class() -> None:
    assert sorted(errors.BY_CODE) == list(range(1, 17))
    assert len({kind.code for kind in errors.BY_CODE.values()}) == 16
    for kind in errors.BY_CODE.values():
        error = kind("what failed")
        assert isinstance(error, package.SquareError)
        assert str(error) == "what failed"


@pytest.mark.parametrize(
    ("code", "built_in"),
    [(3, ValueError), (4, TimeoutError), (5, LookupError), (7, PermissionError), (14, OSError)],
)
def test_errors_are_also_built_ins(code: int, built_in: type[Exception]) -> None:
    assert issubclass(errors.BY_CODE[code], built_in)


def test_errors_of_the_library_are_of_those_classes(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match=r"none\.toml"):
        package.plan(tmp_path / "none.toml")
    topology = package.Topology()
    topology.add_node("a")
    with pytest.raises(errors.AlreadyExistsError):
        topology.add_node("a")
    with pytest.raises(ValueError, match="capacity"):
        package.Topology.full_mesh(["a", "b"], capacity_bps=float("nan"))
