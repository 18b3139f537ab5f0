"""Jobs at emulated sites, as the examples run them: a network namespace each, links shaped by the kernel."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ranks  # noqa: F401 - skips where torch is missing
import square
from commands import wait_until
from conftest import REPOSITORY
from square.errors import AbortedError, SquareError
from square.run import namespaces
from square.run import ranks as running_ranks
from square.run.ranks import Ranks
from square.run.sites import Sites

EXAMPLES = REPOSITORY / "examples"
SECONDS = 120
# float32, and training makes differences larger with every step.
LOSS_TOLERANCE = 1e-5
SHARE_TOLERANCE = 0.25


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    try:
        namespaces.check_possible()
        namespaces.Namespace().close()
    except SquareError as error:
        pytest.skip(str(error))


def example(*arguments: str) -> dict[str, Any]:
    """The figures that it prints."""
    program, *others = arguments
    command = [sys.executable, "-P", str(EXAMPLES / program), *others, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


@pytest.mark.parametrize("kind", [(), ("--sharded",)], ids=("ddp", "fsdp2"))
def test_the_gpt_learns_the_same_with_both_backends(kind: tuple[str, ...], tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    small = ("--steps", "6", "--every", "2", "--width", "32", "--layers", "2")
    figures = example("gpt_sites/compare.py", *small, *kind, "--plot", str(plot))
    losses = figures["losses"]
    assert [step for step, _ in losses["square"]] == [2, 4, 6]
    for (_, theirs), (_, ours) in zip(losses["gloo"], losses["square"], strict=True):
        assert ours == pytest.approx(theirs, rel=LOSS_TOLERANCE)
    assert losses["square"][-1][1] < losses["square"][0][1], "it learned nothing"
    assert all(len(seconds) == 6 for seconds in figures["seconds"].values())
    assert figures["traffic_seconds"] > 0
    assert "</svg>" in plot.read_text(encoding="utf-8")


def test_tenants_get_their_shares() -> None:
    figures = example("two_tenants/share.py", "--seconds", "3")
    assert figures["ratio"] == pytest.approx(2.0, rel=SHARE_TOLERANCE)
    # Who is alone gets more than a share.
    capacity = figures["capacity_mbps"]
    assert sum(figures["together_mbps"].values()) < 1.05 * capacity
    assert figures["silver_alone_mbps"] > 1.5 * figures["together_mbps"]["silver"]


@pytest.fixture
def sites() -> Iterator[Sites]:
    topology = square.Topology.full_mesh(["a", "b"])
    with Sites(topology) as made:
        yield made


def script(folder: Path, text: str) -> list[str]:
    file = folder / "script.py"
    file.write_text(text, encoding="utf-8")
    return [str(file), str(folder)]


def test_ranks_are_where_they_belong(sites: Sites, tmp_path: Path) -> None:
    text = (
        "import json, os, pathlib, sys\n"
        "where = os.readlink('/proc/self/ns/net')\n"
        "mine = {key: os.environ[key] for key in ('RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'SQUARE_NODE')}\n"
        "pathlib.Path(sys.argv[1], os.environ['RANK']).write_text(json.dumps({'where': where, **mine}))\n"
    )
    with Ranks(sites, ["b", "a"], script(tmp_path, text)) as job:
        job.wait(SECONDS)
    first, second = (json.loads((tmp_path / str(rank)).read_text(encoding="utf-8")) for rank in range(2))
    assert len({first.pop("where"), second.pop("where"), os.readlink("/proc/self/ns/net")}) == 3
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": sites.address_of("b")}
    assert first == {"RANK": "0", "SQUARE_NODE": "b", **common}
    assert second == {"RANK": "1", "SQUARE_NODE": "a", **common}


def test_a_rank_that_fails_is_named_and_no_other_stays(
    sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_ranks, "AFTERMATH_SECONDS", 0.2)
    text = "import os, time\nif os.environ['RANK'] == '1': raise SystemExit(7)\ntime.sleep(600)\n"
    with (
        Ranks(sites, sites.names, script(tmp_path, text), name="job") as job,
        pytest.raises(AbortedError, match="job: rank 1 at b ended with exit code 7"),
    ):
        job.wait(SECONDS)
    assert job.processes[0].returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_example_that_is_interrupted_leaves_nothing(number: signal.Signals) -> None:
    command = [sys.executable, "-P", str(EXAMPLES / "gpt_sites" / "compare.py"), "--no-plot"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert wait_until(lambda: len(children_of(process.pid)) == 4, SECONDS)
        children = children_of(process.pid)
        process.send_signal(number)
        process.communicate(timeout=30)
        assert wait_until(lambda: not any(map(is_alive, children)), 10)
        assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    finally:
        process.kill()


def children_of(process_id: int) -> list[int]:
    threads = Path(f"/proc/{process_id}/task").glob("*/children")
    return [int(child) for one in threads for child in one.read_text(encoding="ascii").split()]


def is_alive(process_id: int) -> bool:
    try:
        status = Path(f"/proc/{process_id}/status").read_text(encoding="ascii")
    except OSError:
        return False
    return "\nState:\tZ" not in status


def test_without_the_right_it_says_what_to_do() -> None:
    if os.geteuid() != 0:
        pytest.skip("takes root to give the right away")
    command = ["setpriv", "--bounding-set", "-sys_admin", sys.executable, "-P"]
    command += [str(EXAMPLES / "gpt_sites" / "compare.py"), "--no-plot"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 1
    assert "Operation not permitted; run it as root" in done.stderr
    assert "Traceback" not in done.stderr
