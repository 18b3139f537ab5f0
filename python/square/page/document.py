"""The frame of a page."""

import math
import os
from pathlib import Path

from square.errors import InvalidArgumentError, NotFoundError
from square.page.look import STYLE
from square.page.words import escaped


def document(title: str, body: str, refresh_seconds: float | None = None) -> str:
    """A whole page around ``body``, which is markup. With ``refresh_seconds`` browsers read it again."""
    refresh = ""
    if refresh_seconds is not None:
        refresh = f'<meta http-equiv="refresh" content="{max(1, math.ceil(refresh_seconds))}"/>\n'
    return f"""\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy"\
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"/>
{refresh}<title>{escaped(title)}</title><style>
{STYLE}</style></head>
<body>
{body}
</body></html>
"""


def check_page(file: str | os.PathLike[str]) -> None:
    """Says before anything is measured what would keep a page from being written.

    Raises ``InvalidArgumentError`` for a directory and ``NotFoundError`` where the file's own is not there.
    """
    path = Path(file)
    if path.is_dir():
        raise InvalidArgumentError(f"{path}: is a directory; a page needs a file")
    if not path.absolute().parent.is_dir():
        raise NotFoundError(f"{path.parent}: there is no such directory to write {path.name} in")
