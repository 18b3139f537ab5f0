"""Pages for a browser: pictures as SVG and tables, each page one file that needs no other and no script.

Everything here is text, made without matplotlib: the same figures give the same page.
"""

from square.page.course import MAX_NAMES, Series, chart, picture
from square.page.document import check_page, document
from square.page.live import LivePage
from square.page.look import STYLE
from square.page.overlay import Flow, Site, overlay
from square.page.tables import Cell, table

__all__ = [
    "MAX_NAMES",
    "STYLE",
    "Cell",
    "Flow",
    "LivePage",
    "Series",
    "Site",
    "chart",
    "check_page",
    "document",
    "overlay",
    "picture",
    "table",
]
