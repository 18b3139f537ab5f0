"""Prints what pyproject.toml asks for, one requirement a line.

Without arguments what building, running and testing take; with names of extras what those take.
"""

import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def requirements(extras: list[str]) -> list[str]:
    settings = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    project = settings["project"]
    optional: dict[str, list[str]] = project["optional-dependencies"]
    if extras:
        return [requirement for extra in extras for requirement in optional[extra]]
    return [*settings["build-system"]["requires"], *project["dependencies"], *optional["test"]]


if __name__ == "__main__":
    print(*requirements(sys.argv[1:]), sep="\n")
