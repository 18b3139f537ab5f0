"""Writes the type stub of the installed square._core to the file that is named."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

# What pybind11 cannot say by itself.
SHARPENED = {
    "def __exit__(self, *args) -> None": "def __exit__(self, *args: object) -> None",
    "callback: collections.abc.Callable)": "callback: collections.abc.Callable[[], None])",
    "-> dict:": "-> dict[str, int]:",
    "-> dict[str, object]:": "-> dict[str, typing.Any]:",
    "os.PathLike | str | bytes": "os.PathLike[str] | str",
    "import typing\n": "import os\nimport typing\n",
    "successor: Controller = None": "successor: Controller | None = None",
    "square._core.": "",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    file = parser.parse_args().file
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pybind11_stubgen", "square._core", "--output-dir", folder],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        text = (Path(folder) / "square" / "_core.pyi").read_text(encoding="utf-8")
        for untyped, typed in SHARPENED.items():
            text = text.replace(untyped, typed)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
