"""What nodes serve about themselves, and `square top`, which reads it."""

import json
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import square as package
from commands import assert_clear_error, square, start
from prometheus_client.parser import text_string_to_metric_families
from square.errors import InvalidArgumentError, UnavailableError
from square.metrics.reading import read
from square.watch.rates import Rates
from square.watch.scraping import Answer

PAYLOAD_BYTES = 600_000
SCENARIO = f"""\
[overlay]
[[overlay.link]]
from = "a"
to = "b"
capacity_mbps = 80
[[overlay.link]]
from = "b"
to = "a"
capacity_mbps = 80
[[collective]]
tenant = "alice"
op = "broadcast"
root = "a"
bytes = {PAYLOAD_BYTES}
"""


class Figures:
    """A node that says what it is told to."""

    def __init__(self, **changes: Any) -> None:
        link = {
            "peer": 'quoted "b"\n',
            "direction": "out",
            "is_up": True,
            "bytes": 2**53 - 1,
            "blocks": 7,
            "blocks_resent": 1,
            "wire_bytes": 1_100_000,
            "capacity_bps": None,
            "planned_bps": 2e6,
            "pace_bps": None,
            "queue_blocks": 3,
            "queue_bytes": 24_576,
            "round_trip_seconds": 0.0125,
            "channels": 2,
        }
        self.now: dict[str, Any] = {
            "node": "a",
            "epoch": 4,
            "totals": {"frames_refused": 0, "bytes_in_transit": 5, "bytes_in_transit_max": 9},
            "links": [{**link, **changes}],
            "sessions": [],
            "tenants": [],
        }

    def metrics(self) -> dict[str, Any]:
        return self.now


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[package.Controller]:
    file = tmp_path / "pair.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    with package.Controller(package.Scenario.read(str(file))) as running:
        yield running


@contextmanager
def pair(controller: package.Controller) -> Iterator[tuple[package.Node, package.Node, Any]]:
    """Two nodes, and a call that broadcasts from the first to the second."""
    with package.Node("a", controller.address) as a, package.Node("b", controller.address) as b:
        spec = [("broadcast", 0, PAYLOAD_BYTES, 1.0)]
        source = package.Communicator(a, "collective/0", "alice", ["a", "b"], 0, spec, timeout=20)
        destination = package.Communicator(b, "collective/0", "alice", ["a", "b"], 1, spec, timeout=20)
        sent, received = bytes(range(200)) * (PAYLOAD_BYTES // 200), bytearray(PAYLOAD_BYTES)

        def broadcast() -> None:
            work = destination.broadcast_async(received, root=0, timeout=20)
            source.broadcast(sent, root=0, timeout=20)
            work.wait()
            assert received == sent

        yield a, b, broadcast


def text_of(server: package.metrics.MetricsServer) -> str:
    with urllib.request.urlopen(server.url, timeout=10) as reply:
        assert reply.headers["Content-Type"].startswith("text/plain")
        text: str = reply.read().decode("utf-8")
    return text


def test_the_endpoint_says_what_a_broadcast_moved(controller: package.Controller) -> None:
    with (
        pair(controller) as (a, b, broadcast),
        package.metrics.serve(a) as of_a,
        package.metrics.serve(b) as of_b,
    ):
        before = read(text_of(of_a))
        assert before["links"][0]["bytes"] == 0
        broadcast()
        broadcast()
        families = {family.name: family for family in text_string_to_metric_families(text_of(of_a))}
        (sent,) = [
            sample
            for sample in families["square_link_bytes"].samples
            if sample.labels == {"node": "a", "peer": "b", "direction": "out"}
        ]
        assert sent.name == "square_link_bytes_total"
        assert sent.value == 2 * PAYLOAD_BYTES
        assert all(family.documentation for family in families.values())
        kinds = {name: family.type for name, family in families.items()}
        assert {kind for name, kind in kinds.items() if name.endswith("_per_second")} == {"gauge"}
        assert {kind for name, kind in kinds.items() if name.endswith("_bytes")} == {"counter", "gauge"}
        by_direction = {
            sample.labels["direction"]: sample.value
            for family in text_string_to_metric_families(text_of(of_b))
            for sample in family.samples
            if sample.name == "square_tenant_bytes_total" and sample.labels["tenant"] == "alice"
        }
        assert by_direction == {"sent": 0, "received": 2 * PAYLOAD_BYTES, "delivered": 2 * PAYLOAD_BYTES}


def test_reading_gives_back_the_snapshot(controller: package.Controller) -> None:
    with pair(controller) as (a, _, broadcast), package.metrics.serve(a) as server:
        broadcast()
        now, told = a.metrics(), read(text_of(server))
    assert now["epoch"] == told["epoch"] is not None
    for kind in ("links", "sessions", "tenants"):
        assert len(told[kind]) == len(now[kind]) > 0
        for said, was in zip(told[kind], now[kind], strict=True):
            assert {key: was[key] for key in said if said[key] is not None} == {
                key: value for key, value in said.items() if value is not None
            }
    (session,) = now["sessions"]
    assert (session["tenant"], session["kind"]) == ("alice", "multicast")
    assert session["planned_sent_bps"] == session["planned_bps"] > 0


def test_names_and_large_counters_survive_the_text() -> None:
    node = Figures()
    with package.metrics.serve(node) as server:
        (link,) = read(text_of(server))["links"]
    assert link == node.now["links"][0]


def test_a_stopped_node_and_a_stopped_server(controller: package.Controller) -> None:
    node = package.Node("a", controller.address)
    server = package.metrics.serve(node)
    node.stop()
    assert node.metrics()["links"] == []
    assert read(text_of(server))["node"] == "a"
    server.stop()
    server.stop()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2])))


@pytest.mark.parametrize("address", ["0.0.0.0:0", "203.0.113.7:9100", "[::]:0"])
def test_others_may_not_read_unless_somebody_says_so(address: str) -> None:
    with pytest.raises(InvalidArgumentError, match="loopback"):
        package.metrics.serve(Figures(), address)


@pytest.mark.parametrize("address", ["", "127.0.0.1", "nowhere:9100", "127.0.0.1:99999", "127.0.0.1:x"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"127\.0\.0\.1:9100"):
        package.metrics.serve(Figures(), address)


def test_public_metrics_and_a_port_in_use() -> None:
    with package.metrics.serve(Figures(), "0.0.0.0:0", public=True) as server:
        port = server.address.rpartition(":")[2]
        with pytest.raises(UnavailableError, match=port):
            package.metrics.serve(Figures(), f"127.0.0.1:{port}")


def test_clients_that_stall_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from square.metrics import server as http

    monkeypatch.setattr(http._Handler, "timeout", 0.2)
    with package.metrics.serve(Figures()) as server:
        host, _, port = server.address.rpartition(":")
        stalled = [socket.create_connection((host, int(port))) for _ in range(http.MAX_REQUESTS + 4)]
        for one in stalled:
            one.settimeout(10)
            assert one.recv(1) == b""  # closed, at once or after the timeout
            one.close()
        assert read(text_of(server))["node"] == "a"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:9100", 200),
        ("[::1]:9100", 200),
        ("metrics.example", 421),
        ("127.0.0.1.example:9100", 421),
        ("", 421),
    ],
)
def test_no_page_of_another_name_reads_a_port_at_the_loopback(host: str, status: int) -> None:
    with package.metrics.serve(Figures()) as server:
        connection = HTTPConnection(server.address, timeout=10)
        connection.putrequest("GET", "/metrics", skip_host=True)
        connection.putheader("Host", host)
        connection.endheaders()
        assert connection.getresponse().status == status
        connection.close()


def answer(at: float, **changes: Any) -> Answer:
    return Answer("x", at, Figures(**changes).now)


def test_rates_are_differences_over_time() -> None:
    rates = Rates()
    (first,) = rates.view([answer(10.0, bytes=1_000, wire_bytes=2_000)]).links
    assert first["rate_bps"] is None
    (second,) = rates.view([answer(12.0, bytes=251_000, wire_bytes=252_000, capacity_bps=4e6)]).links
    assert (second["rate_bps"], second["wire_bps"]) == (1e6, 1e6)
    assert second["utilisation"] == 0.25
    (restarted,) = rates.view([answer(13.0, bytes=10, wire_bytes=10)]).links
    assert restarted["rate_bps"] is None
    silent = rates.view([Answer("x", 14.0, None, "gone")])
    assert silent.links == []
    assert silent.nodes[0]["reason"] == "gone"


@contextmanager
def two_nodes(tmp_path: Path) -> Iterator[list[str]]:
    """A controller and two `square node`s; where their metrics are."""
    file = tmp_path / "pair.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    running: list[subprocess.Popen[str]] = []

    def said(*arguments: str | Path) -> dict[str, Any]:
        running.append(start(*arguments, "--json"))
        stream = running[-1].stdout
        assert stream is not None
        document: dict[str, Any] = json.loads(stream.readline())
        return document

    try:
        address = said("controller", file)["address"]
        metrics = ("--controller", address, "--metrics", "127.0.0.1:0")
        yield [said("node", "--name", name, *metrics)["metrics"] for name in ("a", "b")]
    finally:
        for process in running:
            process.kill()
            process.communicate()


def test_top_over_two_nodes(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as addresses:
        result = square("top", *addresses, "--once", "--json", "--interval", "0.2")
        document = json.loads(result.stdout)
        assert document["format"] == "square.top/1"
        assert [node["node"] for node in document["nodes"]] == ["a", "b"]
        assert {(link["from"], link["to"]) for link in document["links"]} >= {("a", "b")}
        assert all(link["rate_mbps"] == 0 for link in document["links"])
        only = json.loads(square("top", addresses[0], "--once", "--json", "--by", "tenant").stdout)
        assert only.keys() == {"format", "interval_seconds", "nodes", "tenants"}
        printed = square("top", *addresses, "127.0.0.1:1", "--once", "--interval", "0.1")
        assert printed.returncode == 0
        assert "links, Mbit/s" in printed.stdout
        assert "127.0.0.1:1 does not answer" in printed.stdout
        watching = start("top", *addresses, "--json", "--interval", "0.1")
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["nodes"]
        watching.send_signal(signal.SIGINT)
        rest, complaints = watching.communicate(timeout=10)
        assert (watching.returncode, complaints) == (0, "")
        assert all(json.loads(line) for line in rest.splitlines())


def test_top_measures_a_broadcast(controller: package.Controller) -> None:
    with (
        pair(controller) as (a, b, broadcast),
        package.metrics.serve(a) as of_a,
        package.metrics.serve(b) as of_b,
    ):
        top = start("top", of_a.address, of_b.address, "--json", "--interval", "0.2")
        assert top.stdout is not None
        try:
            most = 0.0
            total = 0
            deadline = time.monotonic() + 20
            while not (most > 0 and total >= PAYLOAD_BYTES) and time.monotonic() < deadline:
                broadcast()
                document = json.loads(top.stdout.readline())
                (link,) = [row for row in document["links"] if row["from"] == "a"]
                most = max(most, link["rate_mbps"])
                total = link["bytes"]
                sessions = {row["node"]: row for row in document["sessions"]}
                (tenant,) = document["tenants"]
        finally:
            top.send_signal(signal.SIGINT)
            top.communicate(timeout=10)
    assert 0 < most < 1e5
    assert total % PAYLOAD_BYTES == 0 or total > PAYLOAD_BYTES
    assert sessions["b"]["tenant"] == tenant["tenant"] == "alice"
    assert tenant["planned_mbps"] == pytest.approx(80, rel=0.1)
    assert link["capacity_mbps"] == 80


def test_errors_of_top_are_clear(controller: package.Controller) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        assert_clear_error(square("top", address, "--once"), address, "--metrics")
    assert_clear_error(square("top", "nonsense", "--once"), "nonsense", "HOST:PORT")
    # Something else listens there.
    assert_clear_error(square("top", controller.address, "--once"), controller.address)


def test_a_node_refuses_to_serve_everybody(controller: package.Controller) -> None:
    node = ("node", "--name", "a", "--controller", controller.address, "--metrics")
    assert_clear_error(square(*node, "0.0.0.0:0"), "loopback")
    process = start(*node, "0.0.0.0:0", "--metrics-public")
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("a ")
    finally:
        process.send_signal(signal.SIGTERM)
        _, complaints = process.communicate(timeout=10)
    assert "metrics at http://0.0.0.0:" in complaints
