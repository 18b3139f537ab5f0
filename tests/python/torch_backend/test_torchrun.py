"""Scripts started by torchrun, as people start them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ranks  # noqa: F401 - skips where torch is missing

SECONDS = 120


def torchrun(size: int, script: Path, *arguments: str, restarts: int = 0) -> str:
    """What it printed; fails with that if the script failed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
    done = subprocess.run(
        [*command, f"--max-restarts={restarts}", script, *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_data_parallel_example(repository: Path) -> None:
    said = torchrun(2, repository / "examples" / "torch_ddp.py", "--steps", "40")
    assert "2 ranks have the same model, by square" in said


def test_sites_example(repository: Path) -> None:
    said = torchrun(4, repository / "examples" / "torch_sites.py")
    assert "1000000 gradients of 4 ranks at 2 sites added up" in said


def test_a_restart_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank is killed in the first attempt; the second one finds a new overlay and ends well."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, torch, torch.distributed as d\n"
        "d.init_process_group('square')\n"
        "d.all_reduce(torch.ones(10))\n"
        "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and d.get_rank() == 1:\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "tensor = torch.ones(10)\n"
        "for _ in range(10):\n"
        "    d.all_reduce(tensor)\n"
        "file = open(f'{os.environ[\"FOLDER\"]}/{d.get_rank()}', 'w')\n"
        "print('attempt', os.environ['TORCHELASTIC_RESTART_COUNT'], tensor[0].item(), file=file)\n"
        "d.destroy_process_group()\n"
    )
    monkeypatch.setenv("FOLDER", str(tmp_path))
    torchrun(3, script, restarts=1)
    assert [(tmp_path / str(rank)).read_text() for rank in range(3)] == [f"attempt 1 {3.0**10}\n"] * 3


@pytest.mark.long
def test_a_restart_finds_the_remains_of_half_a_meeting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks are killed before they come, and while the others wait for them; the third attempt goes well."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, threading, time, torch, torch.distributed as d, square.torch\n"
        "attempt, rank = int(os.environ['TORCHELASTIC_RESTART_COUNT']), int(os.environ['RANK'])\n"
        "def die(): os.kill(os.getpid(), signal.SIGKILL)\n"
        "if (attempt, rank) == (0, 2):\n"
        "    time.sleep(1)\n"
        "    die()\n"
        "if (attempt, rank) == (1, 0):\n"
        "    threading.Timer(0.02, die).start()\n"
        "d.init_process_group('square')\n"
        "tensor = torch.ones(10)\n"
        "d.all_reduce(tensor)\n"
        "if attempt < 2: time.sleep(60)\n"
        "file = open(f'{os.environ[\"FOLDER\"]}/{rank}', 'w')\n"
        "print('attempt', attempt, tensor[0].item(), file=file)\n"
        "d.destroy_process_group()\n"
    )
    monkeypatch.setenv("FOLDER", str(tmp_path))
    torchrun(3, script, restarts=2)
    assert [(tmp_path / str(rank)).read_text() for rank in range(3)] == ["attempt 2 3.0\n"] * 3


ELASTIC = """
import os, time, torch, torch.distributed as d
agent = os.getppid()
d.init_process_group("square")
size = d.get_world_size()
tensor = torch.ones(10)
d.all_reduce(tensor)
assert tensor[0].item() == size
print(size, file=open(os.environ["SIZES"], "a"), flush=True)
while os.getppid() == agent:  # until the agent ends it, or another rank is gone
    d.all_reduce(tensor)
    time.sleep(0.1)
os._exit(1)  # with its agent
"""


@pytest.mark.long
def test_worlds_of_changing_size_meet_in_an_agents_store(tmp_path: Path) -> None:
    """An agent is killed with its rank; the other starts its rank again, in the same store."""
    script, sizes = tmp_path / "script.py", tmp_path / "sizes"
    script.write_text(ELASTIC)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quick = "last_call_timeout=3,keep_alive_interval=2,keep_alive_max_attempt=5,join_timeout=60"

    def agent(is_host: bool) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=1"]
        command += [
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint=127.0.0.1:{port}",
            f"--rdzv-conf={quick},is_host={is_host}",
        ]
        command += ["--rdzv-id=job", "--max-restarts=9", "--monitor-interval=0.2", str(script)]
        environment = {**os.environ, "SIZES": str(sizes)}
        return subprocess.Popen(command, env=environment, start_new_session=True)

    def wait_for(wanted: list[str]) -> None:
        end = time.monotonic() + SECONDS
        while not sizes.exists() or sizes.read_text().split() != wanted:
            assert time.monotonic() < end, sizes.read_text() if sizes.exists() else "no rank has come"
            time.sleep(0.1)

    agents = [agent(True), agent(False)]
    try:
        wait_for(["2"] * 2)
        os.killpg(agents[1].pid, signal.SIGKILL)
        wait_for(["2"] * 2 + ["1"])
    finally:
        for one in agents:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()
