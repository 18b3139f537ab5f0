"""`make release`, in small trees of its own: one that can be released, and others that cannot."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import square

ROOT = Path(__file__).resolve().parents[2]
VERSION = square.__version__  # that of the package which is installed
STUB = f'__version__: str = "{VERSION}"\n'
PYTHONS = ("3.11", "3.12")
FILES = [f"square-{VERSION}-cp{n}-cp{n}-manylinux_2_35_x86_64.whl" for n in ("311", "312")]
SDIST = f"square-{VERSION}.tar.gz"


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, on a machine that has the Pythons of PYTHONS."""
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    import release as script  # type: ignore[import-not-found]

    monkeypatch.setattr(script.wheels, "pythons", lambda given: map(Path, PYTHONS))
    monkeypatch.setattr(script.wheels, "version_of", str)
    return script  # type: ignore[no-any-return]


class Tree:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("pyproject.toml", f'[project]\nversion = "{VERSION}"\n')
        self.write("CMakeLists.txt", f"project(square VERSION {VERSION} LANGUAGES CXX)\n")
        self.write("CHANGELOG.md", f"# Changes\n\n## [{VERSION}] - 2026-12-01\n")
        self.write("python/square/_core.pyi", STUB)
        self.write("packaging/stubs.py", f"import sys\nopen(sys.argv[1], 'w').write({STUB!r})\n")
        self.write("docs/site/conf.py", "")
        self.write("docs/index.rst", "Square\n======\n")
        self.write(".gitignore", "/dist/\n")
        self.git("init", "--quiet")
        self.commit()
        for name in (*FILES, SDIST):
            self.write(f"dist/{name}", name)

    def write(self, name: str, text: str) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def git(self, *arguments: str) -> None:
        who = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@localhost",
            "-c",
            "commit.gpgsign=false",
            "-c",
            "tag.gpgsign=false",
        ]
        subprocess.run(["git", *who, *arguments], cwd=self.root, check=True, timeout=60)

    def commit(self) -> None:
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", "one")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_tree_that_is_ready_says_what_to_upload(
    release: ModuleType, tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    code = release.main([], root=tree.root)
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.count("\nok ") + said.startswith("ok ") == len(release.CHECKS)
    assert "WRONG" not in said
    for name in (*FILES, SDIST):
        assert f"{hashlib.sha256(name.encode()).hexdigest()}  {len(name):>10}  dist/{name}" in said
    assert f"  git tag -a v{VERSION} -m 'Square {VERSION}' " in said
    assert f"  twine upload dist/{FILES[0]} dist/{FILES[1]} dist/{SDIST}\n" in said


def test_every_check_has_its_line_where_all_fail(
    release: ModuleType, tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.write("pyproject.toml", '[project]\nversion = "9.9.9"\n')
    tree.write("packaging/stubs.py", "raise SystemExit('no stub')\n")
    tree.write("docs/index.rst", "Square\n=====\n")
    tree.git("tag", "v9.9.9")
    assert release.main(["--json"], root=tree.root) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ready"] is False
    assert found["version"] == "9.9.9"
    assert "commands" not in found
    said = {check["check"]: check["said"] for check in found["checks"] if not check["ok"]}
    assert list(said) == list(release.CHECKS)
    assert "3 files are not committed" in said["work tree"]
    for place in ("CMakeLists.txt", "python/square/_core.pyi", "the installed package"):
        assert f"{place} says {VERSION}" in said["version"]
    assert "no part of 9.9.9" in said["changelog"]
    assert "there is a tag v9.9.9" in said["tag"]
    assert "no wheel for Python 3.11" in said["distributions"]
    assert "no square-9.9.9.tar.gz" in said["distributions"]
    assert said["stubs"] == "no stub"
    assert "Title underline too short" in said["documentation"]


def older(tree: Tree) -> None:
    os.utime(tree.root / "dist" / FILES[0], (1e9, 1e9))


def larger(tree: Tree) -> None:
    os.truncate(tree.root / "dist" / FILES[1], 25 * 10**6)


def unrepaired(tree: Tree) -> None:
    file = tree.root / "dist" / FILES[1]
    file.rename(file.with_name(file.name.replace("manylinux_2_35", "linux")))


def without_stub(tree: Tree) -> None:
    (tree.root / "python/square/_core.pyi").unlink()


@pytest.mark.parametrize(
    ("check", "spoil", "said"),
    [
        ("work tree", lambda tree: tree.write("new", ""), "1 files are not committed: ?? new"),
        ("version", lambda tree: tree.write("CMakeLists.txt", ""), "CMakeLists.txt says nothing"),
        ("version", without_stub, "No such file"),
        (
            "changelog",
            lambda tree: tree.write("CHANGELOG.md", f"## [{VERSION}] - unreleased\n"),
            "'unreleased', not a day",
        ),
        ("changelog", lambda tree: tree.write("CHANGELOG.md", f"## [{VERSION}]\n"), "'nowhere', not a day"),
        ("stubs", lambda tree: tree.write("python/square/_core.pyi", "a: int\n"), "make stubs"),
        ("distributions", lambda tree: (tree.root / "dist" / FILES[1]).unlink(), "no wheel for Python 3.12"),
        ("distributions", lambda tree: (tree.root / "dist" / SDIST).unlink(), f"no {SDIST}"),
        ("distributions", older, f"{FILES[0]} is older than the last commit"),
        ("distributions", larger, f"{FILES[1]} takes 25000000 bytes, not under 25000000"),
        ("distributions", unrepaired, "needs this machine's libraries"),
        ("tag", lambda tree: tree.git("tag", f"v{VERSION}"), f"there is a tag v{VERSION}"),
    ],
)
def test_what_is_wrong_is_seen(
    check: str, spoil: Callable[[Tree], object], said: str, release: ModuleType, tree: Tree
) -> None:
    assert release.find(check, release.Tree(tree.root)).ok
    spoil(tree)
    finding = release.find(check, release.Tree(tree.root))
    assert not finding.ok
    assert said in finding.said


def test_a_python_that_is_not_here_needs_no_wheel(release: ModuleType, tree: Tree) -> None:
    finding = release.find("distributions", release.Tree(tree.root))
    assert finding.said == "3 files; no Python 3.13 here"


def test_help_says_what_it_does() -> None:
    command = [sys.executable, str(ROOT / "packaging" / "release.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "it changes nothing" in done.stdout
    assert "--json" in done.stdout
