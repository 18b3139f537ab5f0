"""Ray Train's workers, on this machine. Starting Ray takes half a minute."""

import json
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "torch_ray.py"


def test_two_workers_of_ray_train_and_end() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-4000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    told = json.loads(line)
    assert told["backend"] == "square"
    assert told["workers"] == 2
    assert told["same"]
    assert told["loss"] < 1e-3
