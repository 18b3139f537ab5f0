"""Masters, servers and workers of one process: what users call, and the mistakes that they make."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import square.ps
from commands import wait_until
from ps_processes import free_ports
from square.errors import (
    AlreadyExistsError,
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    UnavailableError,
)

Floats = npt.NDArray[np.float32]
PLAIN = square.ps.Nesterov(lr=1.0, momentum=0.0)


class Site:
    """A master and its servers, and the workers that tests add."""

    def __init__(self, folder: Path, stack: ExitStack, servers: int, **options: Any) -> None:
        self.folder = folder
        self.stack = stack
        given = {"outer": PLAIN, "clip": None, "penalty": None, "push": "float32", "grace": 0.05, **options}
        self.address = f"127.0.0.1:{free_ports()}"
        self.options = given | {"servers": servers}
        self.master = stack.enter_context(square.ps.Master(self.address, **self.options))
        self.servers = [self.server(index) for index in range(servers)]

    def server(self, index: int) -> square.ps.Server:
        return self.stack.enter_context(
            square.ps.Server(self.address, self.folder / f"server{index}", name=f"server{index}", threads=1)
        )

    def worker(self, model: Any, name: str, **options: Any) -> square.ps.Worker:
        given = {"timeout": 30, **options}
        worker = square.ps.Worker(model, master=self.address, name=name, **given)
        self.stack.callback(worker.leave)
        return worker

    def snapshots(self, version: int) -> list[Path]:
        found = sorted(self.folder.glob("server*/*.snapshot"))
        return [path for path in found if square.ps.read_snapshot(path).version == version]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    with ExitStack() as stack:
        yield lambda servers=1, **options: Site(tmp_path, stack, servers, **options)


def model_of(value: float, size: int = 1000) -> dict[str, Floats]:
    return {"first": np.full(size, value, np.float32), "second": np.full((3, 5), value, np.float32)}


def test_pushes_of_two_are_averaged_by_tokens(site: Callable[..., Site]) -> None:
    cluster = site(servers=2, quorum=2, grace=10)
    models = [model_of(1.0), model_of(99.0)]
    workers = [cluster.worker(models[0], "a"), cluster.worker(models[1], "b")]
    assert np.array_equal(models[1]["first"], models[0]["first"])  # the first brought the model
    for number, (model, worker) in enumerate(zip(models, workers, strict=True)):
        model["first"] -= 1.0 + number
        model["second"] += 4.0
        worker.consumed(100 * (1 + 2 * number))
    came = in_threads([worker.sync for worker in workers])
    assert [(sync.outcome, sync.version, sync.decision) for sync in came] == [("adopted", 2, "taken")] * 2
    assert models[0]["first"] == pytest.approx(1.0 - (100 * 1.0 + 300 * 2.0) / 400)
    assert models[0]["second"] == pytest.approx(5.0)
    assert all(np.array_equal(models[0][name], models[1][name]) for name in models[0])
    assert [worker.tokens for worker in workers] == [400, 400]
    status = cluster.master.status()
    assert (status.version, status.tokens, status.waits_for) == (2, 400, "")
    assert sum(server.elements for server in status.servers) == 1015
    kept = square.ps.read_model(cluster.snapshots(2))
    assert all(np.array_equal(kept[name], models[0][name]) for name in kept)
    assert kept["second"].shape == (3, 5)


def test_a_worker_alone_goes_on_through_many_versions(site: Callable[..., Site]) -> None:
    cluster = site(servers=2, outer=square.ps.Nesterov(0.5, 0.9), push="bf16")
    model = model_of(0.0)
    reference = square.ps.OuterOptimizer(
        np.zeros(1015, np.float32), lr=0.5, momentum=0.9, clip=None, penalty=None
    )
    worker = cluster.worker(model, "a")
    for step in range(5):
        model["first"] -= 0.25 * (step + 1)  # a bfloat16 has it whole
        worker.consumed(10)
        assert worker.sync().outcome == "adopted"
        delta = np.concatenate([np.full(1000, 0.25 * (step + 1)), np.zeros(15)]).astype(np.float32)
        reference.round([("a", 10, delta)])
        assert np.concatenate([model["first"], model["second"].ravel()]) == pytest.approx(
            np.asarray(reference.parameters), abs=1e-2 * (step + 1)
        )
    assert [sync.version for sync in worker.history] == [2, 3, 4, 5, 6]


def test_parameters_are_pushed_as_the_paper_does(site: Callable[..., Site]) -> None:
    cluster = site(push="parameters")
    model = model_of(2.0)
    worker = cluster.worker(model, "a")
    model["first"][:] = 1.5
    worker.consumed(1)
    worker.sync()
    assert model["first"] == pytest.approx(1.5)


def test_a_push_that_is_not_finite_is_left_out(site: Callable[..., Site]) -> None:
    cluster = site(quorum=2, grace=10)
    models = [model_of(1.0), model_of(1.0)]
    workers = [cluster.worker(models[0], "good"), cluster.worker(models[1], "bad")]
    models[0]["first"] -= 0.5
    models[1]["second"][1, 1] = np.nan
    for worker in workers:
        worker.consumed(10)
    came = in_threads([worker.sync for worker in workers])
    assert [sync.decision for sync in came] == ["taken", "non-finite"]
    assert models[0]["first"] == pytest.approx(0.5)
    assert np.array_equal(models[0]["second"], models[1]["second"])
    excluded = {worker.name: worker.excluded for worker in cluster.master.status().workers}
    assert excluded == {"good": 0, "bad": 1}


def test_a_server_and_a_master_begin_anew(site: Callable[..., Site]) -> None:
    cluster = site(servers=2)
    model = model_of(0.0)
    worker = cluster.worker(model, "a")
    model["first"] -= 1.0
    worker.consumed(7)
    assert worker.sync().version == 2
    cluster.servers[0].stop()
    model["first"] -= 1.0
    worker.consumed(7)
    skipped = worker.sync()
    assert skipped.outcome in ("skipped", "goes on")
    cluster.servers[0] = cluster.server(0)
    cluster.master.stop()
    cluster.master = cluster.stack.enter_context(square.ps.Master(cluster.address, **cluster.options))
    end = time.monotonic() + 20
    while worker.version == 2 and time.monotonic() < end:
        time.sleep(0.05)  # in which a trainer trains
        came = worker.sync(timeout=1)
    assert came.outcome == "adopted"
    assert model["first"] == pytest.approx(-2.0)  # nothing twice, and nothing lost
    assert cluster.master.status().tokens == 14


def test_a_server_that_comes_later_gets_its_part(site: Callable[..., Site]) -> None:
    cluster = site(outer=square.ps.Nesterov(0.5, 0.9), max_staleness=1)
    model = model_of(0.0)
    reference = square.ps.OuterOptimizer(
        np.zeros(1015, np.float32), lr=0.5, momentum=0.9, clip=None, penalty=None
    )
    worker = cluster.worker(model, "a")
    delta = np.linspace(0.0, 1.0, 1015, dtype=np.float32)

    def step() -> None:
        model["first"] -= delta[:1000]
        model["second"] -= delta[1000:].reshape(3, 5)
        worker.consumed(10)
        while worker.sync().outcome == "skipped":  # parts of the model are on their way
            time.sleep(0.02)
        reference.round([("a", 10, delta)])
        assert np.concatenate([model["first"], model["second"].ravel()]) == pytest.approx(
            np.asarray(reference.parameters), abs=1e-5
        )

    step()
    step()
    cluster.servers.append(cluster.server(1))
    assert wait_until(lambda: sum(one.elements > 0 for one in cluster.master.status().servers) == 2, 30)
    step()
    step()
    status = cluster.master.status()
    assert [one.elements for one in status.servers] == [508, 507]
    assert [len(one.pushes) for one in status.rounds] == [0, 1, 1, 0, 1, 1]
    assert [len(one.parts) for one in status.rounds] == [1, 1, 1, 2, 2, 2]
    snapshots = [square.ps.read_snapshot(path) for path in cluster.snapshots(status.version)]
    assert {one.server: one.hash for one in snapshots} == {
        part.server: part.hash for part in status.rounds[-1].parts
    }
    kept = square.ps.read_model(cluster.snapshots(status.version))
    assert all(np.array_equal(kept[name], model[name]) for name in kept)
    # Who begins now takes it from both.
    other = model_of(9.0)
    cluster.worker(other, "b")
    assert all(np.array_equal(other[name], model[name]) for name in kept)


def test_a_server_of_another_training_is_told_so(site: Callable[..., Site], tmp_path: Path) -> None:
    with ExitStack() as stack:
        (tmp_path / "before").mkdir()
        before = Site(tmp_path / "before", stack, 1)
        before.worker(model_of(1.0), "a")
    cluster = site()
    cluster.worker(model_of(2.0), "a")
    stranger = cluster.stack.enter_context(
        square.ps.Server(cluster.address, tmp_path / "before" / "server0", name="stranger", threads=1)
    )
    with pytest.raises(FailedPreconditionError, match=r"another training.*empty folder"):
        stranger.wait(20)


def test_chunks_are_leased_once(site: Callable[..., Site]) -> None:
    cluster = site(chunks=12)
    workers = [cluster.worker(model_of(0.0), name, sync_every=2) for name in "ab"]
    done: list[int] = []

    def train(worker: square.ps.Worker) -> None:
        for number, chunk in enumerate(worker.chunks(timeout=20)):
            done.append(chunk)
            worker.consumed(1, [chunk])
            if number % 2:
                worker.sync()

    in_threads([lambda worker=worker: train(worker) for worker in workers])
    assert sorted(done) == list(range(12))
    assert cluster.master.status().chunks_done == 12


def test_mistakes_are_named(site: Callable[..., Site], tmp_path: Path) -> None:
    cluster = site()
    worker = cluster.worker(model_of(0.0), "a", timeout=20)
    with pytest.raises(FailedPreconditionError, match="nothing was consumed"):
        worker.sync()
    other = {"first": np.zeros(999, np.float32), "third": np.zeros((3, 5), np.float32)}
    with pytest.raises(InvalidArgumentError, match=r'"first" float32 \[999\], not "first" float32 \[1000\]'):
        cluster.worker(other, "b")
    with pytest.raises(AlreadyExistsError, match=r'node "a".*give this one another name'):
        cluster.worker(model_of(0.0), "a", timeout=1)
    with pytest.raises(FailedPreconditionError, match="server0"):
        square.ps.Server(cluster.address, tmp_path / "server0", name="other")
    with pytest.raises(UnavailableError, match=r"no master answers at 127\.0\.0\.1:1 "):
        square.ps.Worker(model_of(0.0), master="127.0.0.1:1", timeout=0.5)
    with pytest.raises(InvalidArgumentError, match="lr"):
        square.ps.Master(outer=square.ps.Nesterov(lr=-1))
    with pytest.raises(ValueError, match="push is"):
        square.ps.Master(push="int3")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="needs an identity"):
        square.ps.Master("0.0.0.0:0")
    with pytest.raises(ValueError, match="is int64"):
        cluster.worker({"first": np.zeros(3, np.int64)}, "c")
    worker.consumed(5)  # the others' mistakes have not disturbed it
    assert worker.sync().outcome == "adopted"


def test_a_damaged_snapshot_is_named(site: Callable[..., Site]) -> None:
    cluster = site()
    cluster.worker(model_of(0.0), "a")
    (path,) = cluster.snapshots(1)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataLossError, match=path.name):
        square.ps.read_snapshot(path)


def test_the_command_line(tmp_path: Path) -> None:
    """A master, a server and the status, as a user types them."""
    address = f"127.0.0.1:{free_ports()}"
    square_ps = [sys.executable, "-m", "square", "ps"]
    with ExitStack() as stack:
        started = [
            subprocess.Popen([*square_ps, *arguments], stdout=subprocess.PIPE, text=True)
            for arguments in (
                ["master", "--bind", address, "--json"],
                ["server", "--master", address, "--snapshots", str(tmp_path / "one"), "--name", "one"],
            )
        ]
        for process in started:
            stack.callback(process.communicate)
            stack.callback(process.terminate)
            assert process.stdout is not None
            assert process.stdout.readline()
        with square.ps.Worker(model_of(0.0), master=address, name="a", timeout=30) as worker:
            worker.consumed(3)
            assert worker.sync().outcome == "adopted"
            asked = subprocess.run(
                [*square_ps, "status", "--master", address, "--json"], capture_output=True, check=True
            )
            status = json.loads(asked.stdout)
            shown = subprocess.run(
                [*square_ps, "status", "--master", address], capture_output=True, text=True
            )
    assert (status["version"], status["tokens"]) == (2, 3)
    assert "version 2, 3 tokens" in shown.stdout
    assert "one" in shown.stdout
    assert all(process.returncode == 0 for process in started)
    nobody = subprocess.run(
        [*square_ps, "status", "--master", address, "--timeout", "0.5"], capture_output=True, text=True
    )
    assert nobody.returncode == 1
    assert "no master answers" in nobody.stderr


def in_threads(calls: list[Callable[[], Any]]) -> list[Any]:
    """All at once; what each returns, or its error."""
    results: list[Any] = [None] * len(calls)

    def run(index: int) -> None:
        try:
            results[index] = calls[index]()
        except BaseException as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def test_memory_of_two_names_is_refused(site: Callable[..., Site]) -> None:
    cluster = site()
    shared = np.zeros(10, np.float32)
    with pytest.raises(ValueError, match="'one' and 'two' share memory"):
        cluster.worker({"one": shared, "two": shared[5:]}, "a")


def test_a_worker_that_has_left_says_so(site: Callable[..., Site]) -> None:
    worker = site().worker(model_of(0.0), "a")
    worker.leave()
    with pytest.raises(FailedPreconditionError, match="has left"):
        worker.consumed(1)


def test_rounding_is_not_pushed(site: Callable[..., Site]) -> None:
    """A worker in half precision that trains nothing does not pull the servers' float32 to its own grid."""
    cluster = site(outer=square.ps.Nesterov(lr=0.3, momentum=0.0))
    model = {"all": np.ones(100, np.float16)}
    worker = cluster.worker(model, "coarse")
    model["all"] -= np.float16(0.125)
    worker.consumed(1)
    assert worker.sync().version == 2
    (path,) = cluster.snapshots(2)
    assert np.asarray(square.ps.read_snapshot(path).parameters) == pytest.approx(1 - 0.3 * 0.125)
    worker.consumed(1)
    assert worker.sync().version == 3
    (path,) = cluster.snapshots(3)
    assert square.ps.read_snapshot(path).norm == 0


def test_the_end_of_a_block_pushes_what_is_left(site: Callable[..., Site]) -> None:
    cluster = site()
    model = model_of(1.0)
    with cluster.worker(model, "a") as worker:
        model["first"] -= 0.5
        worker.consumed(21)
    assert cluster.master.status().tokens == 21
    assert square.ps.read_model(cluster.snapshots(2))["first"] == pytest.approx(0.5)
