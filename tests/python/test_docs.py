"""The documentation: its site builds without a warning, its links lead somewhere, its snippets are right.

Snippets of Python run, those of a page one after another, unless `<!-- not run: REASON -->` stands on the
line before; scenarios are planned; commands are parsed. What a snippet leaves to the reader's own program
(a tensor, a group, a model) is given below.
"""

import argparse
import contextlib
import importlib.util
import io
import os
import pwd
import re
import shlex
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import square
from commands import square as run_square
from square.cli.main import build_parser

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md"])
FENCE = re.compile(r"(?:^<!-- (not run): [^\n]+ -->\n)?^```(\w+)\n(.*?)^```", re.M | re.S)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-c", str(DOCS / "site"), str(DOCS), str(folder)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert built.returncode == 0, built.stderr
    return folder


class Anchors(HTMLParser):
    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if told.get("id"):
            self.names.add(str(told["id"]))
        if tag == "a" and told.get("href"):
            self.links.append(str(told["href"]))


def test_no_link_of_the_site_is_broken(site: Path) -> None:
    pages = {page.relative_to(site).as_posix(): Anchors(page) for page in site.glob("*.html")}
    assert len(pages) > 20
    broken = []
    for name, page in pages.items():
        for link in page.links:
            target, _, anchor = unquote(link).partition("#")
            if "://" in target or target.startswith(("mailto:", "_")):
                continue
            there = pages.get(target or name)
            if there is None or (anchor and anchor not in there.names):
                broken.append(f"{name}: {link}")
    assert broken == []


def test_every_page_is_in_the_site(site: Path) -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([\w-]+)$", index, re.M))
    assert {page.stem for page in DOCS.glob("*.md")} - {"index"} <= listed


def test_the_reference_has_the_words_of_every_header(site: Path) -> None:
    page = (DOCS / "cpp.rst").read_text(encoding="utf-8")
    listed = re.findall(r"^\.\. doxygenfile:: (\w+\.h)$", page, re.M)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "include" / "square").glob("*.h"))
    shown = " ".join(re.sub(r"<[^>]+>", "", (site / "cpp.html").read_text(encoding="utf-8")).split())
    assert "From a scenario to a plan." in shown  # at the top of a file
    assert "A plan that fits, in milliseconds where make_plan() takes seconds or minutes" in shown
    assert "max-throughput the largest sum of rates (equation 1)" in shown  # in a table
    assert "level_bps = 0\u00b6 reached, by trees" in shown  # beside a member
    assert "all members pass one buffer for every rank" in shown  # over several
    assert "Result&lt;T&gt; when it also has something to give" in shown
    assert "worker_" not in shown  # private
    assert "SimulatedExecutor" not in shown  # a friend


def test_without_doxygen_the_site_says_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-c", str(DOCS / "site"), str(DOCS), str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PATH": str(tmp_path)})
    assert built.returncode != 0
    assert "doxygen, which reads the C++ headers, is not installed: run `make setup`" in built.stderr


@pytest.mark.parametrize(
    ("header", "read"),
    [
        ("// Of a file.\n#pragma once\n", "/** Of a file.\n@file */\n"),
        ("#pragma once\n", "/**\n@file */"),
        ("// Of it.\nint f();\n", "/** Of it. */\nint f();\n"),
        ("// A <T> at 1%: `a<b>`.\nint f();\n", "/** A \\<T\\> at 1\\%: `a<b>`. */\nint f();\n"),
        ("// What:\n//   a  b\n//   c  d\n// End.\nint f();\n",
         "/** What: @verbatim\n  a  b\n  c  d @endverbatim\nEnd. */\nint f();\n"),
        ("//  - One\n//    more\nint f();\n", "/**  - One\n   more */\nint f();\n"),
        ("// Of both.\n\n// Of it.\nint f();\n", "/** Of both.\n\nOf it. */\nint f();\n"),
        ("// Of nothing.\n\nint f();\n", "// Of nothing.\n\nint f();\n"),
        ("struct A {\n  int a;  // one\n          // more\n};\n",
         "struct A {\n  int a;  ///< one\n          ///< more\n};\n"),
        ("int f() {\n  // Why.\n  return 1;  // one\n}\n", "int f() {\n  // Why.\n  return 1;  // one\n}\n"),
        ("class A {\n public:\n  int a();\n private:\n  int b_;\n};\n",
         "class A {\n public:\n  int a();\n\n\n};\n"),
        ("class A {\n private:\n  class B {\n   private:\n    int b_;\n  };\n  int c_;\n};\nint f();\n",
         "class A {\n\n\n\n\n\n\n};\nint f();\n"),
        ("}  // namespace square\n", "}  // namespace square\n"),
    ],
)  # fmt: skip
def test_comments_are_read_as_documentation(header: str, read: str, tmp_path: Path) -> None:
    file = tmp_path / "header.h"
    file.write_text(header)
    command = [sys.executable, str(DOCS / "site" / "doxygen_filter.py"), str(file)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith(read)


def snippets(language: str, run: bool = True) -> list[tuple[str, str]]:
    """Of all pages; without `run` those that do not run, too."""
    return [
        (f"{page.name}-{number}", body)
        for page in PAGES
        for number, (not_run, found, body) in enumerate(FENCE.findall(page.read_text(encoding="utf-8")))
        if found == language and not (run and not_run)
    ]


@pytest.mark.parametrize(
    ("name", "code"), snippets("python", run=False), ids=[n for n, _ in snippets("python", run=False)]
)
def test_python_is_python(name: str, code: str) -> None:
    compile(code, name, "exec")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where snippets run: with the files that they read."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "scenario.toml").symlink_to(ROOT / "examples" / "abilene.toml")
    topology = square.Scenario.read(str(ROOT / "examples" / "abilene.toml")).topology
    nodes = "".join(f'node [ id {at} label "{node.name}" ]\n' for at, node in enumerate(topology.nodes))
    names = [node.name for node in topology.nodes]
    links = "".join(
        f"edge [ source {names.index(link.from_node)} target {names.index(link.to_node)} ]\n"
        for link in topology.links
    )
    (tmp_path / "abilene.gml").write_text(f"graph [ directed 1\n{nodes}{links}]\n")
    (tmp_path / "links.csv").write_text(
        "from,to,capacity_mbps,latency_ms\n"
        + "".join(f"{a},{b},100,50\n" for a in ("lon", "sfo", "tyo") for b in ("lon", "sfo", "tyo") if a != b)
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def python_of(page: str) -> list[str]:
    return [code for name, code in snippets("python") if name.startswith(f"{page}-")]


# Pages whose snippets are what each member of a group does, and the members' nodes.
GROUPS = {
    "programs.md": ["Oslo", "London"],
    "collectives.md": ["Oslo", "London", "Rome"],
    "compression.md": ["a", "b"],
}
TORCH = ("diloco.md", "first-hour.md")
ALONE = sorted({name.rsplit("-", 1)[0] for name, _ in snippets("python")} - {*GROUPS, *TORCH})


@pytest.mark.parametrize("page", ALONE)
def test_python_runs(page: str, folder: Path) -> None:
    tensor = np.arange(1000, dtype=np.float32)
    given = {"square": square, "tensor": tensor, "out": np.empty_like(tensor)}
    for code in python_of(page):
        exec(compile(code, page, "exec"), given)
    if page == "coding.md":
        assert np.array_equal(given["out"], tensor)


class Members:
    """A node for each, in one process; they run a page's snippets at once and end with what these made."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.names = GROUPS[page]
        self.ends: dict[int, dict[str, object] | Exception] = {}
        # A node that leaves fails what others still wait for.
        self._done = threading.Barrier(len(self.names))

    def run(self) -> list[dict[str, object]]:
        overlay = square.Scenario(square.Topology.full_mesh(self.names, capacity_bps=1e9))
        with square.Controller(overlay) as controller:
            threads = [
                threading.Thread(target=self._member, args=(rank, controller.address))
                for rank in range(len(self.names))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        failed = [end for end in self.ends.values() if isinstance(end, Exception)]
        for end in sorted(failed, key=lambda end: isinstance(end, threading.BrokenBarrierError)):
            raise end
        return [self.ends[rank] for rank in range(len(self.names))]  # type: ignore[misc]

    def _member(self, rank: int, address: str) -> None:
        try:
            self.ends[rank] = self._run_snippets(rank, address)
        except Exception as error:
            self.ends[rank] = error
            self._done.abort()

    def _run_snippets(self, rank: int, address: str) -> dict[str, object]:
        given: dict[str, object] = {"square": square, "gradient": np.full(5000, rank + 1, np.float32)}
        given |= {"mine": np.full(10, rank), "everybodys": np.empty(10 * len(self.names), int)}
        with contextlib.ExitStack() as stack:
            if self.page != "programs.md":  # which makes its own
                given["node"] = node = square.Node(self.names[rank], address)
                stack.callback(node.stop)
            if self.page == "compression.md":
                given["group"] = square.Communicator(node, "g", "alice", self.names, rank)
            for code in python_of(self.page):
                mine = code.replace("rank=0", f"rank={rank}").replace("127.0.0.1:7000", address)
                mine = mine.replace('Node("Oslo"', f'Node("{self.names[rank]}"')
                exec(compile(mine, self.page, "exec"), given)
            self._done.wait(60)
        return given


@pytest.mark.parametrize(
    ("page", "says", "header", "constant"),
    [
        (
            "controller.md",
            r"control protocol's version, (\d+)",
            "src/controller/protocol.h",
            "kControlProtocolVersion",
        ),
        ("wire.md", r"protocol version, now `(\d+)`", "include/square/transport.h", "kProtocolVersion"),
    ],
)
def test_versions_in_the_pages_are_those_of_the_code(
    page: str, says: str, header: str, constant: str
) -> None:
    root = DOCS.parent
    in_code = re.search(rf"{constant} = (\d+);", (root / header).read_text())
    in_page = re.search(says, (DOCS / page).read_text())
    assert in_code
    assert in_page
    assert in_page[1] == in_code[1]


def test_members_run_the_pages_about_programs(folder: Path) -> None:
    ends = Members("programs.md").run()
    assert ends[0]["total"] == pytest.approx(2.0)
    assert ends[1]["gradients"] == pytest.approx(2.0)


def test_members_run_the_page_about_collectives(folder: Path) -> None:
    for end in Members("collectives.md").run():
        assert np.array_equal(end["everybodys"], np.repeat([0, 1, 2], 10))


def test_members_run_the_page_about_compression(folder: Path) -> None:
    ends = Members("compression.md").run()
    assert np.array_equal(ends[0]["gradient"], ends[1]["gradient"])
    assert ends[0]["work"].compression_report.ratio > 3


# What a job of torch has, with one process.
TORCH_JOB = """
import torch

model = torch.nn.Linear(4, 1)
batches = [torch.ones(2, 4)] * 3


def loss(model, batch):
    return model(batch).square().mean()

"""


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed: make test-torch"
)
def test_python_runs_with_torch(folder: Path) -> None:
    pages = ["\n".join([*python_of(page), "torch.distributed.destroy_process_group()\n"]) for page in TORCH]
    code = TORCH_JOB + "".join(pages).replace("/data/", f"{folder}/")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    job = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | job, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


# Of scenarios that are shown in part.
OVERLAY = """
[overlay]
mesh = ["Frankfurt", "London", "San Francisco", "Sydney"]
capacity_mbps = 100
capacity_stddev_mbps = 5
[[overlay.link]]
from = "Frankfurt"
to = "San Francisco"
latency_ms = 75
price_usd_per_gb = 0.02
"""
COLLECTIVE = """
[[collective]]
tenant = "alice"
op = "broadcast"
root = "Frankfurt"
bytes = 12_500_000
"""


@pytest.mark.parametrize(("name", "text"), snippets("toml"), ids=[n for n, _ in snippets("toml")])
def test_scenarios_are_planned(name: str, text: str, folder: Path) -> None:
    parts = tomllib.loads(text)
    assert parts, name
    whole = (
        (OVERLAY if "overlay" not in parts else "") + text + (COLLECTIVE if "collective" not in parts else "")
    )
    file = folder / "snippet.toml"
    file.write_text(whole)
    done = run_square("plan", file)
    assert done.returncode == 0, done.stderr
    assert "alice" in done.stdout


def shell_lines(text: str) -> Iterator[str]:
    """Lines of code, indented or in a fence, those that end with a backslash with what follows."""
    joined = re.sub(r"\\\n\s*", "", text)
    for block in re.findall(r"^```(?:console|bash|sh|ini)\n(.*?)^```", joined, re.M | re.S):
        yield from block.splitlines()
    for line in joined.splitlines():
        if line.startswith("    "):
            yield line


# Before `square`: a prompt, the rights of root, variables, a service's key, a path.
COMMAND = re.compile(r"\s*(?:\w?\$ )?(?:sudo )?(?:[A-Z_]+=\S+ )*(?:ExecStart=)?(?:/\S*/)?(square [a-z].*)")


def commands() -> Iterator[tuple[str, list[str]]]:
    for page in [*PAGES, *ROOT.glob("examples/*/README.md")]:
        for line in shell_lines(page.read_text(encoding="utf-8")):
            for part in re.split(r" && | \| ", line):
                part = re.sub(r"\s(#|>|&$|\s+\().*", "", part)
                found = COMMAND.fullmatch(part)
                if found and not re.match(r"square \w+:", found[1]):  # what a command prints
                    yield f"{page.name}: {found[1].strip()}", shlex.split(found[1])[1:]


def inline_commands() -> Iterator[tuple[str, list[str]]]:
    for page in PAGES:
        for command in re.findall(r"`square ([a-z][^`]*)`", page.read_text(encoding="utf-8")):
            yield f"{page.name}: square {command}", shlex.split(command)


PARSER = build_parser()


def parse(words: list[str]) -> str:
    """What the command line says against it."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            PARSER.parse_args(words)
    except SystemExit as end:
        return said.getvalue() if end.code else ""
    return ""


def unknown_options(words: list[str]) -> list[str]:
    """Of a command that is shown in part, or with words in capitals for what the reader puts there."""
    parser = PARSER
    while words and not words[0].startswith("-"):
        names: dict[str, argparse.ArgumentParser] = {}
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                names = action.choices
        if not names:
            break
        if words[0] not in names:
            return [words[0]]
        parser, words = names[words[0]], words[1:]
    known = parser._option_string_actions
    return [word for word in words if re.match(r"--?[a-z]", word) and word.split("=")[0] not in known]


def test_commands_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pwd.getpwnam", lambda name: pwd.getpwuid(0))  # the pages' users are nobody here
    whole = [(shown, words) for shown, words in commands() if "..." not in words]
    assert len(whole) > 40
    assert [f"{shown}: {said}" for shown, words in whole if (said := parse(words))] == []


def test_options_are_known() -> None:
    shown = [*commands(), *inline_commands()]
    assert len(shown) > 100
    assert [f"{name}: {wrong}" for name, words in shown if (wrong := unknown_options(words))] == []


@pytest.mark.parametrize("command", ["plan a.toml --no-such", "nothing", "ca issue folder --no-such", "plan"])
def test_wrong_commands_are_seen(command: str) -> None:
    words = command.split()
    assert parse(words)
    assert unknown_options(words) or command == "plan"


def test_errors_are_all_told() -> None:
    told = (DOCS / "errors.md").read_text(encoding="utf-8")
    codes = re.findall(r'code = "(\w+)"', (ROOT / "python/square/errors.py").read_text(encoding="utf-8"))
    assert len(codes) > 10
    assert [code for code in codes if f"`{code}`" not in told] == []
