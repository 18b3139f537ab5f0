"""The documentation: its site builds without a warning, its links lead somewhere, its snippets are right."""

import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from commands import square

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md"])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


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


@pytest.mark.xdist_group("docs")
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


@pytest.mark.xdist_group("docs")
def test_every_page_is_in_the_site(site: Path) -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([\w-]+)$", index, re.M))
    assert {page.stem for page in DOCS.glob("*.md")} - {"index"} <= listed


def snippets(language: str) -> list[tuple[str, str]]:
    return [
        (f"{page.name}-{number}", body)
        for page in PAGES
        for number, (found, body) in enumerate(FENCE.findall(page.read_text(encoding="utf-8")))
        if found == language
    ]


@pytest.mark.parametrize(("name", "code"), snippets("python"), ids=[n for n, _ in snippets("python")])
def test_python_is_python(name: str, code: str) -> None:
    compile(code, name, "exec")


@pytest.mark.parametrize(("name", "text"), snippets("toml"), ids=[n for n, _ in snippets("toml")])
def test_toml_is_toml(name: str, text: str) -> None:
    assert tomllib.loads(text), name


def test_the_first_hours_overlay_is_planned(tmp_path: Path) -> None:
    overlay = next(body for name, body in snippets("toml") if name.startswith("first-hour"))
    file = tmp_path / "overlay.toml"
    file.write_text(overlay)
    done = square("plan", file)
    assert done.returncode == 0, done.stderr
    assert "alice" in done.stdout


def test_errors_are_all_told() -> None:
    told = (DOCS / "errors.md").read_text(encoding="utf-8")
    codes = re.findall(r'code = "(\w+)"', (ROOT / "python/square/errors.py").read_text(encoding="utf-8"))
    assert len(codes) > 10
    assert [code for code in codes if f"`{code}`" not in told] == []
