"""`square doctor` on overlays of this machine, healthy and with faults that are planted for real."""

import json
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import square
from commands import square as run_square
from doctor_faults import (
    CROWDED,
    PATIENCE_SECONDS,
    SHORT_SECONDS,
    NewVersion,
    Program,
    busy_loops,
    closed_port,
    findings_of,
    joined,
    only,
    process_node,
    say_nothing,
    speak_ssh,
)
from issued import Issued
from square.doctor import Severity
from square.errors import InvalidArgumentError

FEW_FILES = 64
HOUR_SECONDS = 3600
LOWEST_PRIORITY = 19


@pytest.fixture
def controller() -> Iterator[str]:
    with square.Controller() as made:
        yield made.address


def examine(controller: str, timeout: float = PATIENCE_SECONDS) -> square.Examination:
    return square.examine(controller, timeout=timeout)


def look(controller: str) -> square.Examination:
    """Again where nothing is found: on a crowded machine a node's connections may come after the first."""
    examination = examine(controller)
    return examination if findings_of(examination) else examine(controller)


def test_a_healthy_overlay_has_no_finding(controller: str) -> None:
    with joined(["a", "b", "c"], controller) as nodes:
        examination = examine(controller)
        assert findings_of(examination) == []
        assert examination.overlay is not None
        assert [(node.name, node.report is not None) for node in examination.overlay.nodes] == [
            (name, True) for name in ("a", "b", "c")
        ]
        for node, report in examination.overlay.reports():
            assert {attempt.name for attempt in report.attempts} == set(nodes) - {node.name}
            assert report.version == square.__version__
            assert abs(node.clock_ahead_seconds) <= node.clock_doubt_seconds
        # It opened no link.
        assert all(node.metrics()["links"] == [] for node in nodes.values())


def test_what_the_command_prints(controller: str) -> None:
    with joined(["a", "b"], controller):
        healthy = run_square("doctor", "--controller", controller, timeout=60)
        assert healthy.returncode == 0
        assert healthy.stdout.splitlines()[-1].startswith("square doctor: 2 of 2 nodes answered; ")
        with square.Node("c", controller, advertised_address=closed_port()) as wrong:
            ill = run_square("doctor", "--controller", controller)
            assert ill.returncode == 1
            assert ill.stdout.startswith(f"error: port {wrong.address} of node c\n  seen:   none of nodes a")
            assert "3 of 3 nodes answered; 1 error" in ill.stdout.splitlines()[-1]
            document = json.loads(run_square("doctor", "--controller", controller, "--json").stdout)
    assert document["healthy"] is False
    assert [node["answered"] for node in document["nodes"]] == [True] * 3
    assert [one["rule"] for one in document["findings"] if one["rule"] != CROWDED] == ["reach.refused"]
    assert run_square("doctor").returncode == 2


def test_an_advertised_address_where_nobody_listens(controller: str) -> None:
    with joined(["a", "b"], controller), square.Node("c", controller, advertised_address=closed_port()) as c:
        finding = only(look(controller))
    assert (finding.rule, finding.guilty) == ("reach.refused", f"port {c.address} of node c")
    assert "node c itself reaches others, so it runs" in finding.seen


def test_an_advertised_name_that_nobody_knows(controller: str) -> None:
    with (
        joined(["a", "b"], controller),
        square.Node("c", controller, advertised_address="no-such-host.invalid:7001"),
    ):
        finding = only(look(controller))
    assert finding.rule == "address.unresolved"
    assert finding.guilty == "port no-such-host.invalid:7001 of node c"


def test_an_advertised_port_of_another_program(controller: str) -> None:
    for serve, rule in ((speak_ssh, "address.not_square"), (say_nothing, "reach.silent")):
        with (
            Program(serve) as program,
            joined(["a", "b"], controller),
            square.Node("c", controller, advertised_address=program.address),
        ):
            finding = only(look(controller))
        assert (finding.rule, finding.guilty) == (rule, f"port {program.address} of node c")
        assert "ss -ltnp" in finding.remedy


def test_an_advertised_port_of_another_node(controller: str) -> None:
    with (
        joined(["a", "b"], controller) as nodes,
        square.Node("c", controller, advertised_address=nodes["a"].address),
    ):
        finding = only(look(controller))
        assert (finding.rule, finding.guilty) == (
            "address.other_node",
            f"port {nodes['a'].address} of node c",
        )
        assert f"node a answers at {nodes['a'].address}, which it advertises, too" in finding.seen


def test_a_node_of_another_protocol(controller: str) -> None:
    with NewVersion() as proxy, joined(["a", "b"], controller):
        # The port is the node's own, behind the proxy.
        own = closed_port()
        proxy.node = own
        with square.Node("c", controller, bind_address=own, advertised_address=proxy.address):
            finding = only(look(controller))
    assert (finding.rule, finding.guilty) == ("address.other_version", f"port {proxy.address} of node c")
    assert "speaks Square protocol 99" in finding.seen


def test_a_node_of_another_overlay_that_believes_nobody_here(tmp_path: Path) -> None:
    issued, foreign = Issued(tmp_path / "own"), Issued(tmp_path / "foreign")
    with (
        square.Controller(identity=foreign("controller", "c")) as elsewhere,
        square.Node("c", elsewhere.address, identity=foreign("node", "c")) as other,
        square.Controller(identity=issued("controller", "c")) as controller,
        square.Node("a", controller.address, identity=issued("node", "a")),
        square.Node("b", controller.address, identity=issued("node", "b")),
        square.Node("c", controller.address, identity=issued("node", "c"), advertised_address=other.address),
    ):
        assert (
            only(square.examine(controller.address, issued("controller", "operator"))).rule
            == "address.stranger"
        )


def test_a_node_that_is_stopped(controller: str) -> None:
    with joined(["a", "b"], controller), process_node("c", controller) as stopped:
        os.kill(stopped.pid, signal.SIGSTOP)
        finding = only(examine(controller, SHORT_SECONDS))
    assert (finding.rule, finding.guilty) == ("presence.stopped", "node c")
    assert "kill -CONT" in finding.remedy


def test_a_node_that_has_not_come() -> None:
    topology = square.Topology()
    for name in ("a", "b", "c"):
        topology.add_node(name)
    for one, other in (("a", "b"), ("b", "c"), ("c", "a")):
        topology.add_link(one, other)
        topology.add_link(other, one)
    with (
        square.Controller(square.Scenario(topology)) as made,
        joined(["a", "b"], made.address),
    ):
        examination = examine(made.address)
    finding = only(examination)
    assert (finding.rule, finding.guilty, finding.severity) == (
        "presence.missing",
        "node c",
        Severity.WARNING,
    )
    assert examination.is_healthy


def test_a_node_that_may_open_few_files(controller: str) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_FILES, FEW_FILES))

    with joined(["a", "b"], controller), process_node("c", controller, before=limit):
        finding = only(look(controller))
    assert (finding.rule, finding.guilty) == ("limit.files", "node c")
    assert f"may open {FEW_FILES} files" in finding.seen


def test_a_node_whose_clock_is_wrong(controller: str, build_dir: Path) -> None:
    shim = build_dir / "tests" / "netns" / "libshifted_clock.so"
    with (
        joined(["a", "b"], controller),
        process_node("c", controller, LD_PRELOAD=str(shim), SHIFTED_CLOCK_SECONDS=str(HOUR_SECONDS)),
    ):
        finding = only(look(controller))
    assert (finding.rule, finding.guilty) == ("clock.differs", "node c")
    assert "60 minutes ahead of the controller's" in finding.seen


def test_a_node_short_of_the_processor(controller: str) -> None:
    def yield_to_all() -> None:
        os.nice(LOWEST_PRIORITY)

    with process_node("c", controller, before=yield_to_all), busy_loops():
        examination = examine(controller)
    finding = only(examination)
    assert (finding.rule, finding.guilty) == ("processor.share", "node c")
    assert f"nice {LOWEST_PRIORITY}" in finding.seen


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("no-such-host.invalid:7000", "unresolved"),
        (None, "refused"),
        ("program", "not_square"),
        ("node", "node"),
    ],
)
def test_a_controller_that_does_not_answer(controller: str, address: str | None, rule: str) -> None:
    with Program(speak_ssh) as program, joined(["a"], controller) as nodes:
        there = {"program": program.address, "node": nodes["a"].address, None: closed_port()}
        examination = examine(there.get(address, address or ""), 1.0)
    finding = only(examination)
    assert finding.rule == f"controller.{rule}"
    assert not examination.is_healthy
    assert examination.overlay is None


def test_a_controller_that_does_not_believe_who_asks(tmp_path: Path) -> None:
    issued, foreign = Issued(tmp_path / "own"), Issued(tmp_path / "foreign")
    with square.Controller(identity=issued("controller", "c")) as made:
        assert only(square.examine(made.address, foreign("tenant", "t"))).rule == "controller.stranger"
        assert only(square.examine(made.address)).rule == "controller.stranger"
        assert findings_of(square.examine(made.address, issued("controller", "operator"))) == []


def test_an_address_that_is_none_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError):
        square.examine("nonsense")
