"""How the processes of one job know one another: each makes a key, and tells its certificate's fingerprint.

The fingerprints go through torch's store: who reads it learns nothing that helps, who writes to it may be
anybody. docs/security.md says what that defends.
"""

import threading
from collections.abc import Sequence

import square

_lock = threading.Lock()
_own: square.Identity | None = None


def own_identity() -> square.Identity:
    """Of this process, made once. Thread-safe."""
    global _own
    with _lock:
        if _own is None:
            _own = square.Identity.make_own()
        return _own


def believing(fingerprints: Sequence[str]) -> square.Identity:
    """The own one, which believes these from now on."""
    identity = own_identity()
    identity.believe(list(fingerprints))
    return identity


def adopt(pem: str) -> square.Identity:
    """That of the process that has invited this one, in the place of its own."""
    global _own
    with _lock:
        _own = square.Identity.from_pem(pem)
        return _own
