"""Scripts started by torchrun, as people start them."""

import subprocess
import sys
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
