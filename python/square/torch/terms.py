"""What holds for a group and for those that it becomes.

Terms reach a process through torch's store, which others may write to. A process that was given an identity
or a controller checks them: the store replaces neither.
"""

import os
from dataclasses import dataclass

from square.torch.options import Options
from square.torch.site import is_lone


@dataclass(frozen=True)
class Terms:
    """As in Layout."""

    tenant: str
    algorithm: str
    compression: str
    controller: str
    """The key of its sites: where the controller was at first."""
    fingerprints: list[str]
    """Of the processes that believe one another; none: without TLS, or by identities that were given."""
    weight: float | None
    redundancy: int


def check_terms(options: Options, terms: Terms) -> None:
    """Raises ValueError where the terms would replace the identity or the controller of the options."""
    if options.controller and terms.controller != options.controller:
        raise ValueError(
            f"the group's controller is {terms.controller}, and this process was given "
            f"{options.controller}: give all ranks the same SQUARE_CONTROLLER. If they have it, another "
            "process has written to the store"
        )
    if options.controller and terms.fingerprints:
        raise ValueError(
            f"the group trusts {len(terms.fingerprints)} keys that came through the store, and this process "
            f"was given the controller {options.controller}, whose members need none: give all ranks the "
            "same SQUARE_CONTROLLER, or none of them. If they have it, another process has written to the "
            "store"
        )
    if terms.fingerprints or terms.weight is not None:
        refuse_own_overlay(options)


def refuse_own_overlay(options: Options) -> None:
    """Raises ValueError where the job's processes, which are of no authority, would have the controller."""
    if options.identity:
        raise ValueError(
            f"this process was given the identity {options.identity}, and the group's controller is one of "
            "its own processes, which is of no authority: set SQUARE_CONTROLLER on all ranks to a controller "
            "of the identity's authority, or unset SQUARE_IDENTITY on all"
        )


def check_unchanged(own: Terms, agreed: Terms) -> None:
    """Raises ValueError where a group that goes on would believe others than before. A node that stands
    alone has no controller, and a new name each time."""
    has_moved = agreed.controller != own.controller and not is_lone(own.controller)
    if has_moved or agreed.fingerprints != own.fingerprints:
        what = f"the controller {agreed.controller}" if has_moved else "other keys"
        raise ValueError(
            f"the group goes on with {what}, and this process knows it with the controller {own.controller} "
            f"and {len(own.fingerprints)} keys: another process has written to the group's store. Start all "
            "ranks again"
        )


def trusted_gateway(options: Options, gateway: str) -> str:
    """The path of a gateway that the store names. Raises ValueError where this process was given an identity
    or a controller, and the gateway may be another user's."""
    path = os.path.realpath(gateway)
    if not options.identity and not options.controller:
        return path
    try:
        owner = os.stat(os.path.dirname(path)).st_uid
    except OSError:  # attaching says what is wrong
        return path
    if owner not in (0, os.geteuid()):
        raise ValueError(
            f"the gateway {gateway} is in a folder of user {owner}, and this process is of user "
            f"{os.geteuid()}: run all ranks of a host as one user. If they are, another process has written "
            "to the store"
        )
    return path
