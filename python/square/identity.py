"""Who a process is to others, as an argument."""

import os
from typing import TypeAlias

from square._core import Identity

IdentitySource: TypeAlias = Identity | str | os.PathLike[str] | None
"""An identity, or the folder that ``square ca issue`` has written; None for none."""
