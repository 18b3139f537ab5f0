"""Identities for a test."""

from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import square

LIFE = timedelta(days=1)


class Issued:
    """An authority in a folder; called with a role and a name it gives the folder of their identity."""

    def __init__(self, folder: Path, domain: str = "square.test") -> None:
        self._root = folder
        self.authority = square.Authority.create(folder / "authority", domain)

    def __call__(self, role: str, name: str, tenants: tuple[str, ...] = ("*",)) -> str:
        """Nodes may register groups of these tenants."""
        place = self._root / f"{role}-{quote(name, safe='')}"
        if not place.exists():
            self.authority.issue(role, name, place, LIFE)
            for tenant in tenants:
                self.authority.grant(tenant, place, LIFE)
        return str(place)
