"""How a member finds its master, and where it lives."""

from square import hosts
from square.errors import UnavailableError
from square.identity import IdentitySource
from square.ps.status import ask

_ASK_SECONDS = 0.5


def bind_address(master: str, given: str) -> str:
    """Where its node listens: on the own address towards the master, unless something else is given."""
    if given:
        return given
    host, _ = hosts.split_address(master)
    own = hosts.address_towards(host) or hosts.LOOPBACK
    return f"{own}:0"


def wait_for_master(master: str, identity: IdentitySource, timeout: float) -> None:
    """Until one answers. Raises UnavailableError; Ctrl-C is heard."""
    tries = max(1, round(timeout / _ASK_SECONDS))
    for attempt in range(tries):
        try:
            ask(master, identity=identity, timeout=_ASK_SECONDS)
            return
        except UnavailableError as error:
            if attempt + 1 == tries:
                raise UnavailableError(
                    f"no master answers at {master} within {timeout:g} s; start one with `square ps master`"
                ) from error
