"""Runs a function as every rank of a process group, each in a process of its own.

The ranks are forked by a fresh process that has imported torch and square and used neither: that is
quick, and nothing that the test's own process did can disturb them.

The folder is not called torch: where torch is missing, an import of it would find the folder.
"""

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Every test of this folder imports this module first.
pytest.importorskip("torch", reason="torch is not installed: `make setup` installs it into .venv")

SECONDS = 120
RANK_FAILED = 3


def run(
    function: Callable[..., Any],
    size: int,
    *arguments: Any,
    backend: str = "square",
    environment: dict[str, str] | None = None,
    environments: list[dict[str, str]] | None = None,
    expect_deaths: bool = False,
) -> list[Any]:
    """What `function(rank, size, *arguments)` returned on every rank, by way of JSON.

    A default group of `backend` is made before and destroyed after it; None of a backend makes none.
    `environments` are for single ranks. Fails with the ranks' tracebacks.
    """
    with tempfile.TemporaryDirectory() as folder:
        call = {
            "module": function.__module__,
            "name": function.__name__,
            "size": size,
            "arguments": arguments,
            "backend": backend,
            "environments": environments or [{}] * size,
            "folder": folder,
        }
        said, status = _run(
            [sys.executable, __file__, json.dumps(call)],
            {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        )
        if status != 0 and not expect_deaths:
            raise AssertionError(f"a rank failed:\n{said[-12000:]}")
        print(said)  # pytest shows it if the test fails
        results = [Path(folder) / f"result-{rank}" for rank in range(size)]
        return [json.loads(path.read_text()) if path.exists() else None for path in results]


def _run(command: list[str], environment: dict[str, str]) -> tuple[str, int]:
    """What it printed and its exit status. Ranks that hang are killed with the process that forked them."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        raise AssertionError(f"not over after {SECONDS} s:\n{said[-12000:]}") from None
    return said, process.returncode


def be_rank(call: dict[str, Any], rank: int) -> None:
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    size, backend = call["size"], call["backend"]
    os.environ.update(call["environments"][rank])
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
    function = getattr(importlib.import_module(call["module"]), call["name"])
    if backend is not None:
        store = distributed.FileStore(f"{call['folder']}/store", size)
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size)
    result = function(rank, size, *call["arguments"])
    Path(call["folder"], f"result-{rank}").write_text(json.dumps(result))
    if distributed.is_initialized():
        distributed.destroy_process_group()


def main() -> int:
    call = json.loads(sys.argv[1])
    sys.path.insert(0, str(Path(__file__).parent))
    # Before the fork: it is the slow part, and it must be harmless.
    import square.torch  # noqa: F401

    children = []
    for rank in range(call["size"]):
        child = os.fork()
        if child == 0:
            try:
                be_rank(call, rank)
            except BaseException:
                print(f"rank {rank}:", file=sys.stderr)
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(RANK_FAILED)
            # As at any program's end: older torch leaves some groups only then.
            atexit._run_exitfuncs()
            sys.stdout.flush()
            os._exit(0)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children)


if __name__ == "__main__":
    sys.exit(main())
