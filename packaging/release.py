"""Checks that this tree can be released, and prints what to upload; it changes nothing.

    make wheel                          # wheels and the source distribution, in dist/
    python packaging/release.py         # or: make release

Every check has a line, also after one that fails; then the exit code is 1, and nothing is said of an upload.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import wheels

ROOT = Path(__file__).resolve().parent.parent
STEP_SECONDS = 600.0
# Where a version stands by itself; all must be the one of pyproject.toml.
VERSIONS = {
    "CMakeLists.txt": r"project\(square VERSION (\S+)",
    "python/square/_core.pyi": r'__version__: str = "(.*)"',
}


class WrongError(Exception):
    """What must be mended before a release."""


@dataclass(frozen=True)
class Finding:
    check: str
    ok: bool
    said: str


class Tree:
    """A working tree, which need not be this one: tests make small ones."""

    def __init__(self, root: Path) -> None:
        self.root = root
        settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        self.version: str = settings["project"]["version"]
        self.tag = f"v{self.version}"

    def run(self, *command: str | Path) -> str:
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.root, timeout=STEP_SECONDS)
        if done.returncode != 0:
            said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            raise WrongError("; ".join(said[-4:]) or f"{command[0]} ended with {done.returncode}")
        return done.stdout.strip()

    def python(self, *arguments: str | Path) -> str:
        return self.run(sys.executable, *arguments)

    def files(self) -> list[Path]:
        """What a release uploads."""
        found = (self.root / "dist").glob(f"square-{self.version}-*.whl")
        return [*sorted(found), self.root / "dist" / f"square-{self.version}.tar.gz"]


def work_tree(tree: Tree) -> str:
    changed = tree.run("git", "status", "--porcelain").splitlines()
    if changed:
        raise WrongError(f"{len(changed)} files are not committed: {changed[0].strip()}, ...")
    return "nothing is left to commit"


def one_version(tree: Tree) -> str:
    said = {"the installed package": tree.python("-P", "-m", "square", "--version").removeprefix("square ")}
    for name, pattern in VERSIONS.items():
        found = re.search(pattern, (tree.root / name).read_text(encoding="utf-8"))
        said[name] = found[1] if found else "nothing"
    wrong = [f"{place} says {version}" for place, version in said.items() if version != tree.version]
    if wrong:
        raise WrongError(f"pyproject.toml says {tree.version}, but {', '.join(wrong)}")
    return f"{tree.version} in pyproject.toml, {', '.join(said)}"


def changelog(tree: Tree) -> str:
    text = (tree.root / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## \[{re.escape(tree.version)}\](?: - (\S+))?$", text, re.M)
    if found is None:
        raise WrongError(f"CHANGELOG.md has no part of {tree.version}")
    try:
        return f"{tree.version} of {date.fromisoformat(found[1] or '')}"
    except ValueError:
        raise WrongError(f"CHANGELOG.md dates {tree.version} {found[1] or 'nowhere'!r}, not a day") from None


def stubs(tree: Tree) -> str:
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "_core.pyi"
        tree.python("packaging/stubs.py", fresh)
        settings = tree.root / "pyproject.toml"
        tree.python("-m", "ruff", "format", "--quiet", "--config", settings, fresh)
        if fresh.read_bytes() != (tree.root / "python/square/_core.pyi").read_bytes():
            raise WrongError("python/square/_core.pyi is not the installed module's: make stubs")
    return "python/square/_core.pyi is current"


def distributions(tree: Tree) -> str:
    """A wheel for each Python that is here, and the source distribution, of the last commit."""
    here = [wheels.version_of(python) for python in wheels.pythons([])]
    names = [file.name for file in tree.files()]
    wrong = [
        f"no wheel for Python {version}"
        for version in here
        if version and not any(f"-cp{version.replace('.', '')}-" in name for name in names)
    ]
    committed = int(tree.run("git", "log", "-1", "--format=%ct"))
    for file in tree.files():
        if not file.is_file():
            wrong.append(f"no {file.name}")
            continue
        if file.suffix == ".whl" and "manylinux" not in file.name:
            wrong.append(f"{file.name} needs this machine's libraries")
        if file.stat().st_size >= wheels.MOST_BYTES:
            wrong.append(f"{file.name} takes {file.stat().st_size} bytes, not under {wheels.MOST_BYTES}")
        if file.stat().st_mtime < committed:
            wrong.append(f"{file.name} is older than the last commit")
    if wrong:
        raise WrongError(f"{'; '.join(wrong)}: make wheel")
    without = [version for version in wheels.VERSIONS if version not in here]
    return f"{len(names)} files" + (f"; no Python {', '.join(without)} here" if without else "")


def documentation(tree: Tree) -> str:
    with tempfile.TemporaryDirectory() as folder:
        tree.python("-m", "sphinx", "-q", "-W", "-c", "docs/site", "docs", folder)
    return "docs/ builds without a warning"


def tag(tree: Tree) -> str:
    if tree.run("git", "tag", "--list", tree.tag):
        raise WrongError(f"there is a tag {tree.tag}: release another version")
    return f"{tree.tag} is free"


# Slow ones last.
CHECKS: dict[str, Callable[[Tree], str]] = {
    "work tree": work_tree,
    "version": one_version,
    "changelog": changelog,
    "tag": tag,
    "distributions": distributions,
    "stubs": stubs,
    "documentation": documentation,
}


def find(check: str, tree: Tree) -> Finding:
    try:
        return Finding(check, True, CHECKS[check](tree))
    except (WrongError, OSError, ValueError, subprocess.SubprocessError) as wrong:
        return Finding(check, False, str(wrong))


def upload(tree: Tree) -> dict[str, object]:
    """What is to be uploaded, from where, and how."""
    names = [str(file.relative_to(tree.root)) for file in tree.files()]
    commit = tree.run("git", "rev-parse", "HEAD")
    return {
        "commit": commit,
        "files": [
            {
                "name": name,
                "bytes": (tree.root / name).stat().st_size,
                "sha256": hashlib.sha256((tree.root / name).read_bytes()).hexdigest(),
            }
            for name in names
        ],
        "commands": [
            f"git tag -a {tree.tag} -m 'Square {tree.version}' {commit}",
            f"git push origin {tree.tag}",
            f"twine upload {' '.join(names)}",
        ],
    }


def print_upload(what: dict[str, object]) -> None:
    print(f"\ncommit {what['commit']}")
    for file in what["files"]:  # type: ignore[attr-defined]
        print(f"{file['sha256']}  {file['bytes']:>10}  {file['name']}")
    print("\nto release it:", *what["commands"], sep="\n  ")  # type: ignore[misc]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print all of it as JSON and nothing else")
    options = parser.parse_args(arguments)
    tree = Tree(root)
    findings = []
    for check in CHECKS:
        findings.append(find(check, tree))
        if not options.json:
            last = findings[-1]
            print(f"{'ok' if last.ok else 'WRONG':<6}{check:<15}{last.said}", flush=True)
    ready = all(finding.ok for finding in findings)
    what = upload(tree) if ready else {}
    if options.json:
        found = {"version": tree.version, "ready": ready, "checks": [asdict(each) for each in findings]}
        print(json.dumps(found | what, indent=2))
    elif ready:
        print_upload(what)
    return 0 if ready else 1


if __name__ == "__main__":
    sys.exit(main())
