"""Prints what pyproject.toml asks for (build, run, test), one requirement a line."""

import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"

if __name__ == "__main__":
    settings = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    project = settings["project"]
    print(
        *settings["build-system"]["requires"],
        *project["dependencies"],
        *project["optional-dependencies"]["test"],
        *project["optional-dependencies"]["torch-tests"],
        sep="\n",
    )
