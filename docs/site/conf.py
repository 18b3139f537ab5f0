"""The documentation's site, `make docs`: its pages are the files of docs/, which are read without it, too."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

project = "Square"
author = "the authors of Square"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "breathe", "cpp_headers"]
exclude_patterns = ["site"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
html_theme = "furo"
html_title = f"Square {version}"
html_copy_source = False
myst_enable_extensions = ["colon_fence"]
# As GitHub names headings.
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # pybind11's signatures have them
breathe_default_project = "square"
breathe_show_include = False  # the headings of docs/cpp.rst say it
# Breathe declares the namespace that every header opens once for each; cpp_headers takes them out again.
suppress_warnings = ["duplicate_declaration.cpp"]


def _follow_sources(app: object, docname: str, content: list[str]) -> None:
    """Files beside docs/ are no pages of the site: their links become words."""
    content[0] = re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"`\1`", content[0])


def setup(app) -> None:  # type: ignore[no-untyped-def]
    app.connect("source-read", _follow_sources)
