"""The C++ reference: Doxygen reads the public headers, Breathe puts them into docs/cpp.rst."""

import subprocess
import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ConfigError
from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[2]
PAGE = "cpp"
DOXYGEN = "doxygen"
DOXYFILE = """
INPUT = "{root}/include/square"
STRIP_FROM_PATH = "{root}/include"
INPUT_FILTER = "{python} {root}/docs/site/doxygen_filter.py"
OUTPUT_DIRECTORY = "{folder}"
EXTRACT_ALL = YES
SORT_MEMBER_DOCS = NO
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
"""


def read_headers(app: Sphinx, config: Config) -> None:
    """Each time: it takes a few seconds. Doxygen's warnings are the site's."""
    folder = Path(app.doctreedir) / "headers"
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "Doxyfile"
    settings.write_text(DOXYFILE.format(root=ROOT, python=sys.executable, folder=folder), encoding="utf-8")
    try:
        done = subprocess.run([DOXYGEN, settings], capture_output=True, text=True)
    except FileNotFoundError:
        raise ConfigError(
            "doxygen, which reads the C++ headers, is not installed: run `make setup`"
        ) from None
    for line in done.stderr.splitlines():
        # A specialisation of a template of std, whose namespace it does not know.
        if "scope for class std::" not in line:
            logging.getLogger(__name__).warning("doxygen: %s", line)
    if done.returncode != 0:
        raise ConfigError(f"doxygen ended with {done.returncode}")
    config.breathe_projects = {"square": str(folder / "xml")}


def lay_out(app: Sphinx, doctree: nodes.document) -> None:
    """Headers stand under their own headings: the namespaces around all that they declare go.

    So do the 1,700 declarations in the table of contents, which Sphinx copies into every page of the site.
    """
    if app.env.docname != PAGE:
        return
    for declaration in list(doctree.findall(addnodes.desc)):
        declaration["no-contents-entry"] = True
        signature, content = declaration[0], declaration[-1]
        if signature.astext().startswith("namespace "):
            anchors = [nodes.target(ids=signature["ids"])] if signature["ids"] else []
            declaration.replace_self([*anchors, *content.children])


def setup(app: Sphinx) -> None:
    app.connect("config-inited", read_headers)
    # Before Sphinx collects the table of contents.
    app.connect("doctree-read", lay_out, priority=100)
