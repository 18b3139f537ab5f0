"""Messages of the library: structured, through Python's logging, and nowhere else."""

import io
import json
import logging
import re
from pathlib import Path

import pytest
import square as package
from commands import TRIANGLE, wait_until


def test_records_say_what_they_are_about(caplog: pytest.LogCaptureFixture) -> None:
    package.log.connect(logging.DEBUG)
    try:
        with (
            caplog.at_level(logging.DEBUG, logger="square"),
            package.Controller(package.Scenario.parse(TRIANGLE)) as controller,
            package.Node("a", controller.address) as node,
        ):
            assert wait_until(lambda: node.metrics()["epoch"] is not None, 10)
    finally:
        package.log.disconnect()
    joined = [record for record in caplog.records if "node a joined" in record.getMessage()]
    assert [(record.component, record.node) for record in joined] == [("controller", "a")]
    installed = [record for record in caplog.records if "installed plan" in record.getMessage()]
    assert installed
    assert all(record.node == "a" and record.epoch >= 1 for record in installed)
    assert all(record.name == f"square.{record.component}" for record in caplog.records)


def test_records_as_json() -> None:
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(package.log.JsonFormatter())
    logger = logging.getLogger("square.test")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        package.log._forward(40, 'a: link to "b"\nis down', {"component": "test", "node": "a", "peer": "b"})
        try:
            raise ValueError("no")
        except ValueError:
            logger.exception("one of ours: %d", 7)
    finally:
        logger.removeHandler(handler)
    first, second = map(json.loads, text.getvalue().splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "ERROR",
        "logger": "square.test",
        "message": 'a: link to "b"\nis down',
        "component": "test",
        "node": "a",
        "peer": "b",
    }
    assert second["message"] == "one of ours: 7"
    assert "ValueError: no" in second["exception"]


STANDARD_STREAM = re.compile(
    r"std::(cout|cerr|clog)\b|\b(printf|puts|putchar|perror)\s*\(|\bfprintf\s*\(|\bfputs\s*\(|\bSTD(OUT|ERR)_FILENO\b"
    r"|<iostream>|<print>"
)
# A failed assertion ends the program, and says why.
ASSERTION = ("src/base/status.cc", "check_failed")


def test_the_library_writes_to_no_standard_stream(repository: Path) -> None:
    found = []
    for top in ("src", "include", "bindings"):
        for path in sorted((repository / top).rglob("*")):
            if path.suffix not in {".h", ".cc"}:
                continue
            text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
            name = str(path.relative_to(repository))
            for match in STANDARD_STREAM.finditer(text):
                if name == ASSERTION[0] and ASSERTION[1] in text[: match.start()]:
                    continue
                found.append(f"{name}: {match[0]}")
    assert found == []


@pytest.mark.parametrize(
    "line", ["std::cerr << 1;", "fprintf (stderr, x)", "perror(x)", "#include <iostream>"]
)
def test_writing_to_one_is_noticed(line: str) -> None:
    assert STANDARD_STREAM.search(line)
    assert not STANDARD_STREAM.search("std::snprintf(least, sizeof least); fmt::format(x)")
