"""The type stub is the one that the extension module gives: `make stubs`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_stub_is_current(tmp_path: Path) -> None:
    fresh = tmp_path / "_core.pyi"
    subprocess.run([sys.executable, str(ROOT / "packaging" / "stubs.py"), str(fresh)], check=True)
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", str(fresh)], check=True, cwd=ROOT)
    assert fresh.read_text() == (ROOT / "python" / "square" / "_core.pyi").read_text(), "run `make stubs`"
