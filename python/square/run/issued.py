"""Identities for the processes of one run, which does not outlive it."""

import hashlib
from datetime import timedelta
from pathlib import Path

from square._core import Authority
from square.temporary import temporary_folder

_DOMAIN = "run.square"
_LIFE = timedelta(days=30)


class Issued:
    """An authority in a directory of its own. Not thread-safe."""

    def __init__(self) -> None:
        self._root = temporary_folder("square-identities-")
        self._authority = Authority.create(Path(self._root.name) / "authority", _DOMAIN)
        self._folders: dict[tuple[str, str], str] = {}

    def folder(self, role: str, name: str) -> str:
        """Of the identity of that role and name, which may register groups of every tenant."""
        if (role, name) not in self._folders:
            # Names may be the same but for their case, where file systems tell them apart and where not.
            place = Path(self._root.name) / hashlib.sha256(f"{role}/{name}".encode()).hexdigest()[:32]
            self._authority.issue(role, name, place, _LIFE)
            self._authority.grant("*", place, _LIFE, groups=1 << 16, collectives=1 << 32)
            self._folders[role, name] = str(place)
        return self._folders[role, name]

    def close(self) -> None:
        """Idempotent."""
        self._root.cleanup()
