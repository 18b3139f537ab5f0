"""Frameworks train over square as over Gloo: one lesson each, with validation and a metric, on two ranks."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: `make setup` installs it into .venv")

SCRIPTS = Path(__file__).resolve().parent / "frameworks"
SECONDS = 250
BACKENDS = ("gloo", "square")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(script: str, *arguments: str, ranks: int = 0) -> None:
    """One of the scripts, by torchrun where `ranks` are given. Fails with what it wrote."""
    command = [sys.executable, str(SCRIPTS / script), *arguments]
    if ranks:
        torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port"]
        command[1:1] = [*torchrun, str(free_port())]
    quiet = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command,
        env={**os.environ, **quiet, "MASTER_PORT": str(free_port()), "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout[-8000:]


def results(script: str, folder: Path, *arguments: str, ranks: int = 0) -> dict[str, Any]:
    """By backend what the script tells."""
    for backend in BACKENDS:
        run(script, backend, str(folder / backend), *arguments, ranks=ranks)
    return {backend: json.loads((folder / backend).read_text()) for backend in BACKENDS}


def check(square: dict[str, Any], gloo: dict[str, Any]) -> None:
    assert (square["backend"], gloo["backend"]) == ("square", "gloo")
    assert len(gloo["losses"]) > 1
    # Sums of two are the same in any order, of a norm's squares nearly so.
    assert square["losses"] == pytest.approx(gloo["losses"], rel=1e-6)
    assert square["accuracy"] == gloo["accuracy"]


def test_lightning_with_every_launcher(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    run("lightning_training.py", str(tmp_path), "gloo-fork", "square-fork", "square-spawn")
    run("lightning_training.py", str(tmp_path), "square-popen")
    gloo = json.loads((tmp_path / "gloo-fork").read_text())
    for launcher in ("fork", "spawn", "popen"):
        check(json.loads((tmp_path / f"square-{launcher}").read_text()), gloo)


@pytest.mark.long
@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("framework", ["accelerate", "transformers"])
def test_hugging_face(framework: str, tmp_path: Path) -> None:
    pytest.importorskip(framework)
    told = results(f"{framework}_training.py", tmp_path, ranks=2)
    check(told["square"], told["gloo"])


@pytest.mark.long
@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_deepspeed_on_the_cpu(stage: int, tmp_path: Path) -> None:
    pytest.importorskip("deepspeed")
    told = results("deepspeed_training.py", tmp_path, str(stage), ranks=2)
    check(told["square"], told["gloo"])


@pytest.mark.long
@pytest.mark.timeout(2 * SECONDS)
def test_ray_train(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    told = results("ray_training.py", tmp_path)
    check(told["square"], told["gloo"])


@pytest.mark.long
@pytest.mark.timeout(2 * SECONDS)
def test_torchft(tmp_path: Path) -> None:
    pytest.importorskip("torchft")
    told = results("torchft_training.py", tmp_path)
    check(told["square"], told["gloo"])
