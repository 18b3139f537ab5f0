"""Every example runs, and every benchmark in Python at least says what it is."""

import subprocess
import sys
from pathlib import Path

import pytest
from commands import square
from conftest import REPOSITORY

EXAMPLES = REPOSITORY / "examples"


# torchrun starts the others: tests/python/torch_backend/test_torchrun.py.
ALONE = sorted(path for path in EXAMPLES.glob("*.py") if not path.name.startswith("torch_"))


@pytest.mark.parametrize("program", ALONE, ids=lambda path: path.name)
def test_example(program: Path) -> None:
    command = [sys.executable, "-P", str(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout


@pytest.mark.parametrize("scenario", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_scenario(scenario: Path) -> None:
    result = square("plan", scenario)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "program", sorted((REPOSITORY / "benchmarks").glob("*.py")), ids=lambda path: path.name
)
def test_benchmark_has_help(program: Path) -> None:
    if "\nimport torch\n" in program.read_text(encoding="utf-8"):
        pytest.importorskip("torch")
    command = [sys.executable, str(program), "--help"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr


def test_the_paper_s_network(data_dir: Path) -> None:
    topology = data_dir / "topology-zoo" / "Arpanet19706.gml"
    program = REPOSITORY / "benchmarks" / "paper_arpanet.py"
    command = [sys.executable, "-P", str(program), "--seeds", "2", "--topology", str(topology)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    assert "83.68" in result.stdout
