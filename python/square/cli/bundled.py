"""Scenarios that come with the package, by name."""

from importlib import resources
from pathlib import Path

from square._core import Scenario
from square.errors import NotFoundError

NAMES = ("butterfly", "demo")
HELP = f"a TOML file (docs/scenario.md lists its keys), or one that comes along: {', '.join(NAMES)}"


def resource(name: str) -> resources.abc.Traversable:
    return resources.files("square").joinpath("scenarios", f"{name}.toml")


def scenario(name: str) -> Scenario:
    return Scenario.parse(resource(name).read_text(encoding="utf-8"), f"{name}.toml")


def read(file: Path, units: str | None = None) -> Scenario:
    """The file's; without such a file, the bundled one of that name."""
    if str(file) in NAMES and not file.exists():
        return scenario(str(file))
    try:
        return Scenario.read(str(file), units)
    except NotFoundError as missing:
        raise NotFoundError(f"{missing}; scenarios that come along: {', '.join(NAMES)}") from None
