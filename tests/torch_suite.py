"""Runs torch's own tests of a backend (DistributedTest) on Gloo and on square, and compares them.

    python tests/torch_suite.py
    python tests/torch_suite.py --backends square --only all_reduce
    make test-torch-suite

Many of those tests run for a backend of the name "gloo" only. So torch is told that it tests Gloo, and where
a test makes its first group, the one under test is put in its place. Exits with 1 if Gloo passes a test that
square does not, but for the one that asks for the backend's name.
"""

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

WORLD_SIZE = 4
# Of one test, after which torch's harness ends its processes.
TEST_SECONDS = 60
# Gloo's suite takes about two minutes; one that hangs in every test must end, too.
SUITE_SECONDS = 1800
# These ask for the name "gloo" and nothing else.
NAME_TESTS = {"test_get_backend"}
PASSED, SKIPPED = "passed", "skipped"


class Recorder(unittest.TestResult):
    """Every test's outcome, its seconds and the end of what it said."""

    def __init__(self, shows_progress: bool) -> None:
        super().__init__()
        self.found: dict[str, dict[str, Any]] = {}
        self._shows_progress = shows_progress
        self._begin = 0.0

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        self._begin = time.monotonic()

    def _add(self, test: unittest.TestCase, outcome: str, why: str = "") -> None:
        name = test.id().rpartition(".")[2]
        seconds = round(time.monotonic() - self._begin, 2)
        self.found[name] = {"outcome": outcome, "seconds": seconds, "why": why[-4000:]}
        if self._shows_progress and outcome != SKIPPED:
            print(f"{outcome:8} {seconds:6.1f} s  {name}", file=sys.stderr, flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self._add(test, PASSED)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        self._add(test, SKIPPED, reason)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        self._add(test, "failed", self._exc_info_to_string(err, test))

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        self._add(test, "error", self._exc_info_to_string(err, test))


def put_in_place(backend: str) -> None:
    """Lets the first group of every test be one of this backend."""
    from torch import distributed
    from torch.distributed import distributed_c10d

    init = distributed.init_process_group

    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("backend") == "gloo":
            kwargs["backend"] = backend
        return init(*args, **kwargs)

    for module in (distributed, distributed_c10d):
        module.init_process_group = init_process_group


def run_here(backend: str, only: str, result: Path, verbose: bool) -> None:
    """Runs the suite in this process, which forks each test's ranks."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "barrier").touch()
        os.environ.update(
            BACKEND="gloo",
            WORLD_SIZE=str(WORLD_SIZE),
            TEMP_DIR=folder,
            MASTER_ADDR="127.0.0.1",
            GLOO_SOCKET_IFNAME="lo",
            OMP_NUM_THREADS="1",
            DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(TEST_SECONDS),
        )
        os.environ.pop("MASTER_PORT", None)
        import torch
        from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

        class TestBackend(TestDistBackend, DistributedTest._DistTestBase):  # type: ignore[misc]
            def setUp(self) -> None:
                super().setUp()
                self._start_processes(torch.multiprocessing.get_context("fork").Process)

        TestBackend.__module__ = "__main__"
        globals()["TestBackend"] = TestBackend
        if backend != "gloo":
            put_in_place(backend)
        chosen = [
            name for name in unittest.defaultTestLoader.getTestCaseNames(TestBackend) if re.search(only, name)
        ]
        recorder = Recorder(verbose)
        # torch's harness writes every failure of every process to standard error.
        with redirect_stderr(io.StringIO()) if not verbose else redirect_stderr(sys.stderr):
            unittest.TestSuite(map(TestBackend, chosen)).run(recorder)
    result.write_text(json.dumps(recorder.found))


def run_apart(backend: str, only: str, verbose: bool) -> tuple[dict[str, dict[str, Any]], float]:
    """Runs the suite in a process of its own; returns what it found and the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, __file__, "--here", backend, "--only", only, "--result", str(result)]
        begin = time.monotonic()
        log = None if verbose else subprocess.DEVNULL
        subprocess.run(
            command + ["--verbose"] * verbose, check=True, timeout=SUITE_SECONDS, stdout=log, stderr=log
        )
        return json.loads(result.read_text()), time.monotonic() - begin


def summary(backend: str, found: dict[str, dict[str, Any]], seconds: float) -> str:
    counts = dict.fromkeys((PASSED, SKIPPED, "failed", "error"), 0)
    for test in found.values():
        counts[test["outcome"]] += 1
    words = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return f"{backend:8} {len(found)} tests: {words}; {seconds:.0f} s"


def compare(results: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """What Gloo passes and square does not."""
    gloo, square = results.get("gloo", {}), results.get("square", {})
    return [
        f"{name}: {square[name]['outcome']}\n{square[name]['why']}"
        for name, test in sorted(gloo.items())
        if test["outcome"] == PASSED and square[name]["outcome"] != PASSED and name not in NAME_TESTS
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backends", nargs="+", default=["gloo", "square"], help="one after the other")
    parser.add_argument("--only", default="", metavar="REGEX", help="tests whose name matches")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome there")
    parser.add_argument("--verbose", action="store_true", help="each test as it ends")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        run_here(options.here, options.only, options.result, options.verbose)
        return 0
    results = {}
    for backend in options.backends:
        results[backend], seconds = run_apart(backend, options.only, options.verbose)
        print(summary(backend, results[backend], seconds), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if not {"gloo", "square"} <= results.keys():
        return 0
    missing = compare(results)
    for text in missing:
        print(f"\n{text}")
    print(f"tests that pass on Gloo and not on square, but for its name: {len(missing)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
