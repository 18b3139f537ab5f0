"""The commands of the pages, typed in their order: what a reader finds there works as it stands."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import test_docs
from commands import COMMAND, square
from conftest import REPOSITORY

# What tests of their own type, on files and networks of their own.
ELSEWHERE = {"bench", "demo", "doctor", "run", "top"}
PLACES = [
    (r"postgresql://\S+", "overlay.store"),
    (r"(?:[\w.-]+|\$A):7000(?:,[\w.-]+:7000)*", "{controller}"),
    (r"(?:0\.0\.0\.0|\$[AB]|fra):0", "127.0.0.1:0"),
    (r"127\.0\.0\.1:91\d\d", "127.0.0.1:0"),
    (r"/run/square/", "./"),
]
TOPOLOGY = "from,to,capacity_mbps\n" + "".join(
    f"{tail},{head},100\n" for tail in ("fra", "oslo") for head in ("fra", "oslo") if tail != head
)
CITIES = ["London", "Oslo", "Sydney", "Tokyo"]
SCENARIO = f"[overlay]\nmesh = {CITIES}\ncapacity_mbps = 40\n" + "".join(
    f'[[collective]]\ntenant = "alice"\nop = "broadcast"\nroot = "{city}"\nbytes = 400_000\n'
    for city in CITIES
)
Servers = list[subprocess.Popen[str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the files that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    (tmp_path / "topology.csv").write_text(TOPOLOGY, encoding="utf-8")
    (tmp_path / "scenario.toml").write_text(SCENARIO, encoding="utf-8")
    shutil.copy(REPOSITORY / "examples" / "mesh.toml", tmp_path / "overlay.toml")
    return tmp_path


@pytest.fixture
def servers() -> Iterator[Servers]:
    running: Servers = []
    yield running
    for process in reversed(running):
        process.kill()
        process.communicate()


def typed(page: str) -> list[list[str]]:
    """The page's commands, but for those that are shown in part."""
    found = [words for shown, words in test_docs.commands() if shown.startswith(f"{page}: ")]
    return [words for words in found if words[0] not in ELSEWHERE and not {"...", "%H"} & set(words)]


def here(words: list[str], controller: str) -> list[str]:
    placed = []
    for word in words:
        for pattern, place in PLACES:
            word = re.sub(rf"^{pattern}", place.format(controller=controller), word)
        placed.append(word)
    return placed


def serve(words: list[str], servers: Servers) -> str:
    """What it says first: it is ready."""
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    servers.append(process)
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said, (words, process.communicate()[1])
    return said


def pages() -> list[str]:
    return sorted({shown.split(": ")[0] for shown, _ in test_docs.commands()})


@pytest.mark.parametrize("page", [page for page in pages() if typed(page)])
def test_commands_of_the_page(page: str, folder: Path, servers: Servers) -> None:
    commands = typed(page)
    if not any(words[0] == "controller" for words in commands):
        commands.insert(0, ["controller", "--bind", "0.0.0.0:7000"])
    controller = ""
    seen = set()
    for words in commands:
        what = tuple(words[: 2 if words[0] == "controller" else 5])
        if what in seen:  # shown in another way
            continue
        seen.add(what)
        if words[0] == "controller":
            said = serve(here(words, "127.0.0.1:0"), servers)
            controller = re.findall(r"[\d.]+:\d+", said)[0]
        elif words[0] == "node":
            serve(here(words, controller), servers)
        else:
            done = square(*here(words, controller))
            assert done.returncode == 0, (words, done.stderr)
            (folder / "plan.json").write_text(done.stdout, encoding="utf-8")
