"""What a training shows of itself: metrics, and the commands top --master, ps rounds and ps audit."""

import json
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import square as package
from commands import assert_clear_error, square, start
from prometheus_client.parser import text_string_to_metric_families
from square import ps
from square.watch.training import TokenRate
from test_parameter_servers import Site, in_threads, model_of

ROUNDS = 3
Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two servers and two workers after three rounds; the second worker's last push is not finite."""
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("training")
        cluster = Site(folder, stack, 2, quorum=2, grace=10, chunks=12)
        models = [model_of(1.0), model_of(1.0)]
        workers = [cluster.worker(model, name) for model, name in zip(models, "ab", strict=True)]

        def train(model: dict[str, Any], worker: ps.Worker, number: int) -> None:
            for round_number in range(ROUNDS):
                model["first"] -= 0.5 * (1 + number)
                if (round_number, number) == (ROUNDS - 1, 1):
                    model["second"][1, 1] = np.nan
                chunk = worker.chunk(timeout=5)
                assert chunk is not None
                worker.consumed(100 * (1 + number), [chunk])
                assert worker.sync().outcome == "adopted"

        in_threads(
            [
                lambda model=model, worker=worker, number=number: train(model, worker, number)
                for number, (model, worker) in enumerate(zip(models, workers, strict=True))
            ]
        )
        assert cluster.master.status().version == 1 + ROUNDS
        yield cluster


def values_of(text: str) -> Values:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as reply:
        text: str = reply.read().decode("utf-8")
    return text


def test_metrics_say_what_the_status_says(training: Site) -> None:
    with package.metrics.serve(training.master) as server:
        text = fetched(server.url)
    status, values = training.master.status(), values_of(text)
    assert all(family.documentation for family in text_string_to_metric_families(text))

    def value(name: str, **labels: str) -> float:
        return values[f"square_ps_{name}", tuple(sorted(labels.items()))]

    assert (value("version"), value("tokens_total"), value("skipped_rounds_total")) == (4, 900, 0)
    assert (value("waiting"), value("moving_shards")) == (0, 0)
    assert [value("chunks", state=state) for state in ("done", "held", "free")] == [6, 0, 6]
    for worker in status.workers:
        shown = {
            "connected": 1,
            "base_version": worker.base_version,
            "pushes_total": ROUNDS,
            "excluded_pushes_total": worker.excluded,
            "skipped_pushes_total": worker.skipped,
            "staleness_versions": worker.staleness,
            "push_seconds": worker.push_seconds,
            "pull_seconds": worker.pull_seconds,
            "wait_seconds": worker.wait_seconds,
            "push_interval_seconds": worker.interval_seconds,
            "idle_ratio": worker.idle_share,
            "norm": worker.norm,
            "score": worker.score,
        }
        told = {name: value(f"worker_{name}", worker=worker.name) for name in shown}
        assert told == pytest.approx(shown, nan_ok=True)
    assert (value("worker_excluded_pushes_total", worker="b"), status.workers[1].excluded) == (1, 1)
    assert value("worker_norm", worker="a") == pytest.approx(0.5 * np.sqrt(1000))
    assert not np.isfinite(value("worker_norm", worker="b"))
    for server in status.servers:
        assert value("server_connected", server=server.name) == 1
        assert value("server_elements", server=server.name) == server.elements > 0
        assert value("server_update_seconds", server=server.name) == server.update_seconds > 0
        assert value("server_snapshot_seconds", server=server.name) == server.snapshot_seconds > 0
    last = status.rounds[-1]
    assert [value(f"round_{name}") for name in ("version", "norm", "factor", "seconds", "pushes")] == [
        4, last.norm, last.factor, last.seconds, 2,
    ]  # fmt: skip
    for path in training.snapshots(4):
        kept = ps.read_snapshot(path)
        assert value("part_info", server=kept.server, version="4", hash=f"{kept.hash:016x}") == 1
    assert sum(name == "square_ps_part_info" for name, _ in values) == 2


def test_a_master_without_a_model_has_metrics() -> None:
    with ps.Master() as master, package.metrics.serve(master) as server:
        values = values_of(fetched(server.url))
        assert values["square_ps_version", ()] == 0
        assert values["square_ps_waiting", ()] == 1
        # Else a master that begins anew, and learns it from its servers, would seem to count all again.
        assert ("square_ps_tokens_total", ()) not in values


def test_the_command_serves_metrics() -> None:
    master = ("ps", "master", "--json", "--metrics")
    assert_clear_error(square(*master, "0.0.0.0:0"), "loopback")
    process = start(*master, "127.0.0.1:0")
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["metrics"]
        assert values_of(fetched(f"http://{address}/metrics"))["square_ps_version", ()] == 0
        # A master is no node, and `square top` says so.
        assert_clear_error(square("top", address, "--once"), address, "none of a node's metrics")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)


def test_top_shows_the_training(training: Site) -> None:
    asked = square("top", "--master", training.address, "--once", "--interval", "0.1", "--json")
    assert asked.returncode == 0, asked.stderr
    document = json.loads(asked.stdout)
    assert (document["format"], document["nodes"]) == ("square.top/1", [])
    told = document["training"]
    assert (told["version"], told["tokens"], told["tokens_per_second"]) == (4, 900, 0)
    assert [(one["name"], one["excluded"]) for one in told["workers"]] == [("a", 0), ("b", 1)]
    assert told["workers"][1]["norm"] is None  # it is not finite
    hashes = {part.server: f"{part.hash:016x}" for part in training.master.status().rounds[-1].parts}
    assert {one["name"]: one["hash"] for one in told["servers"]} == hashes
    printed = square("top", "--master", training.address, "--once", "--interval", "0.1")
    assert printed.returncode == 0
    for word in (
        "version 4, 900 tokens, 0 a second",
        "push s",
        "idle",
        "behind",
        "update s",
        *hashes.values(),
    ):
        assert word in printed.stdout


def test_top_shows_nodes_beside_it_and_goes_on_without_it(training: Site) -> None:
    with (
        package.Node("beside", training.master.controller) as node,
        package.metrics.serve(node) as server,
        socket.socket() as unused,
    ):
        unused.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers
        nobody = f"127.0.0.1:{unused.getsockname()[1]}"
        both = square("top", server.address, "--master", training.address, "--once", "--interval", "0.1")
        assert both.returncode == 0, both.stderr
        assert "links, Mbit/s" in both.stdout
        assert "version 4" in both.stdout
        away = square("top", server.address, "--master", nobody, "--once", "--interval", "0.1")
        assert away.returncode == 0, away.stderr
        assert f"no master answers at {nobody}" in away.stdout
        assert_clear_error(square("top", "--master", nobody, "--once"), "no master answers", nobody)
    assert square("top").returncode == 2


def test_top_goes_on_when_the_master_dies(tmp_path: Path) -> None:
    with ps.Master() as master:
        top = start("top", "--master", master.address, "--json", "--interval", "0.1")
        assert top.stdout is not None
        assert "server" in json.loads(top.stdout.readline())["training"]["waits_for"]
    while (document := json.loads(top.stdout.readline()))["training"]["reason"] is None:
        pass
    assert "no master answers" in document["training"]["reason"]
    top.send_signal(signal.SIGINT)
    _, complaints = top.communicate(timeout=10)
    assert (top.returncode, complaints) == (0, "")


def test_a_rate_is_of_a_minute() -> None:
    rate = TokenRate()
    told = [rate.add(at, tokens) for at, tokens in ((100, 50), (110, 50), (120, 250), (200, 410), (201, 9))]
    assert told == [None, 0, 10, 2, None]


def test_rounds_say_who_pushed(training: Site) -> None:
    asked = square("ps", "rounds", "--master", training.address, "--json")
    rounds = json.loads(asked.stdout)["rounds"]
    assert [one["version"] for one in rounds] == [1, 2, 3, 4]
    told = [
        sorted(
            (push["worker"], push["decision"], push["tokens"], push["base_version"]) for push in one["pushes"]
        )
        for one in rounds
    ]
    assert told[0] == []  # the first version is what the first worker brought
    assert told[2] == [("a", "taken", 100, 2), ("b", "taken", 200, 2)]
    assert told[3] == [("a", "taken", 100, 3), ("b", "non-finite", 200, 3)]
    for version in (2, 3, 4):
        kept = [ps.read_snapshot(path) for path in training.snapshots(version)]
        assert {part["server"]: part["hash"] for part in rounds[version - 1]["parts"]} == {
            snapshot.server: f"{snapshot.hash:016x}" for snapshot in kept
        }
    printed = square("ps", "rounds", "--master", training.address, "--limit", "1").stdout
    assert "version 4: " in printed
    assert "version 3: " not in printed
    assert "non-finite" in printed
    assert json.loads(square("ps", "status", "--master", training.address, "--json").stdout)["version"] == 4


@pytest.fixture
def folders(training: Site, tmp_path: Path) -> list[Path]:
    """Copies of what the servers keep: the newest three versions."""
    copies = []
    for name in ("server0", "server1"):
        copies.append(tmp_path / name)
        copies[-1].mkdir()
        for file in (training.folder / name).glob("*.snapshot"):
            (copies[-1] / file.name).write_bytes(file.read_bytes())
    return copies


def test_an_audit_of_good_snapshots(folders: list[Path]) -> None:
    audit = square("ps", "audit", *folders)
    assert audit.returncode == 0, audit.stdout
    lines = audit.stdout.splitlines()
    assert [line.partition(",")[0] for line in lines[:3]] == [
        f"version {number}: good" for number in (2, 3, 4)
    ]
    assert "2 pushes, 900 tokens, server0 " in lines[2]
    assert lines[3].startswith("3 versions, 6 chunks, all good; versions before 2 are not there")
    document = json.loads(square("ps", "audit", *folders, "--json").stdout)
    assert document["is_good"]
    hashes = {snapshot.server: f"{snapshot.hash:016x}" for snapshot in newest(folders)}
    assert document["versions"][-1]["hashes"] == hashes


def newest(folders: list[Path]) -> list[ps.Snapshot]:
    return [ps.read_snapshot(max(folder.glob("*.snapshot"))) for folder in folders]


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("harm", [damage, Path.unlink])
def test_an_audit_names_what_is_not_there(folders: list[Path], harm: Callable[[Path], object]) -> None:
    victim = sorted(folders[1].glob("*.snapshot"))[1]
    harm(victim)
    audit = square("ps", "audit", *folders)
    assert audit.returncode == 1
    (wrong,) = [line for line in audit.stdout.splitlines() if "WRONG" in line]
    assert wrong.startswith("version 3: ")
    assert str(victim) in audit.stdout
    assert "elements 508 to 1,015 are in no readable snapshot" in audit.stdout
    assert "3 versions, 6 chunks, 1 wrong" in audit.stdout


def test_an_audit_finds_what_does_not_fit_together(folders: list[Path], tmp_path: Path) -> None:
    for folder in folders:
        sorted(folder.glob("*.snapshot"))[1].unlink()
    audit = square("ps", "audit", *folders)
    assert (audit.returncode, "no snapshot of version 3" in audit.stdout) == (1, True)
    assert square("ps", "audit", folders[0]).returncode == 1  # a server was forgotten
    # The same version twice, of the same chunks.
    older, newer = sorted(folders[0].glob("*.snapshot"))
    newer.write_bytes(older.read_bytes())
    audit = square("ps", "audit", *folders)
    assert f"{newer}: has version 2" in audit.stdout
    assert audit.returncode == 1
    assert_clear_error(square("ps", "audit", tmp_path / "nowhere"), "nowhere", "no such folder")
    (tmp_path / "empty").mkdir()
    assert_clear_error(square("ps", "audit", tmp_path / "empty"), "no snapshots", "empty")
