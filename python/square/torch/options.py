"""How a process group finds its overlay."""

import os
import pwd
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import square

DEFAULT_ALGORITHM = "planned"
ALGORITHMS = ("planned", "ring")

# The environment variable of every option that has one.
_VARIABLES = {
    "algorithm": "SQUARE_ALGORITHM",
    "compression": "SQUARE_COMPRESSION",
    "controller": "SQUARE_CONTROLLER",
    "gateway": "SQUARE_GATEWAY",
    "identity": "SQUARE_IDENTITY",
    "interface": "SQUARE_INTERFACE",
    "node": "SQUARE_NODE",
    "redundancy": "SQUARE_REDUNDANCY",
    "tenant": "SQUARE_TENANT",
    "weight": "SQUARE_WEIGHT",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a process brings along; None takes the environment's value, then the default.

    Every rank may have others, but for ``tenant``, ``algorithm``, ``compression`` and ``redundancy``,
    which are the first rank's, and ``controller``: the ranks that name one name the same.
    """

    controller: str | None = None
    """host:port of a `square controller` (SQUARE_CONTROLLER); without one, the first rank embeds one. A group
    with another controller is refused."""
    tenant: str | None = None
    """Who pays (SQUARE_TENANT, the first rank's login name)."""
    node: str | None = None
    """This host's name in the overlay (SQUARE_NODE, the host name). Ranks that share it share a node."""
    weight: float | None = None
    """The tenant's weight, where the first rank embeds the controller (SQUARE_WEIGHT, 1)."""
    interface: str | None = None
    """Name or address of the network interface to use (SQUARE_INTERFACE, the one towards the controller)."""
    identity: str | None = None
    """The folder of this process's identity (SQUARE_IDENTITY), where a controller is named that has one; its
    node is called as the certificate says. A group whose own processes have the controller is refused."""
    gateway: str | None = None
    """The socket of a `square node --gateway` to attach to, instead of joining as a node (SQUARE_GATEWAY)."""
    algorithm: str | None = None
    """Of all_reduce: "planned" or "ring" (SQUARE_ALGORITHM, "planned")."""
    compression: str | square.Compression | None = None
    """Of large float32 tensors in all_reduce: "bf16", "int8", "top-k:0.01"... (SQUARE_COMPRESSION, "none").

    See :class:`square.Compression`, which it may be, too."""
    redundancy: int | None = None
    """Of broadcast: so many relays and links may be lost without anything being sent again
    (SQUARE_REDUNDANCY, 0; 4 at most). So many ways more carry sums, which takes their part of the rate."""

    @classmethod
    def resolve(cls, given: Any, environment: Mapping[str, str] = os.environ) -> Self:
        """Fills what `given` (Options or None) leaves open from the environment.

        Raises ValueError for a weight that is no positive number, for an algorithm or a compression that
        there is not and for a redundancy that is none, TypeError for other options.
        """
        if environment.get("SQUARE_TOKEN"):
            raise ValueError(
                "SQUARE_TOKEN is gone: identities take its place; make them with `square ca init` and "
                "`square ca issue`, and name the folder with SQUARE_IDENTITY"
            )
        options = cls() if given is None else given
        if not isinstance(options, cls):
            raise TypeError(f"pg_options of the backend square must be square.torch.Options, not {given!r}")
        for name, variable in _VARIABLES.items():
            text = environment.get(variable, "")
            if getattr(options, name) is None and text:
                value: Any = _READERS[name](text) if name in _READERS else text
                options = replace(options, **{name: value})
        if options.weight is not None and not options.weight > 0:
            raise ValueError(f"the weight must be larger than 0, not {options.weight}")
        if options.redundancy is not None and options.redundancy < 0:
            raise ValueError(f"the redundancy must be 0 or more, not {options.redundancy}")
        if options.algorithm is not None and options.algorithm not in ALGORITHMS:
            names = " or ".join(f'"{name}"' for name in ALGORITHMS)
            raise ValueError(f"the algorithm (SQUARE_ALGORITHM) must be {names}, not {options.algorithm!r}")
        if options.compression is not None:
            options = replace(options, compression=_compression(options.compression))
        return options


def login_name(environment: Mapping[str, str] = os.environ) -> str:
    """Of the user whose process this is, as login(1) and su(1) leave it; the user's number without a name."""
    for variable in ("LOGNAME", "USER"):
        if name := environment.get(variable, ""):
            return name
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in many containers
        return f"uid {os.getuid()}"


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{_VARIABLES['weight']} must be a number, not {text!r}") from None


def _redundancy(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{_VARIABLES['redundancy']} must be a whole number, not {text!r}") from None


# Of the variables that are not text.
_READERS: dict[str, Callable[[str], Any]] = {"weight": _weight, "redundancy": _redundancy}


def _compression(given: str | square.Compression) -> str:
    """As text, which is what ranks tell one another."""
    try:
        return str(square.Compression.parse(str(given)))
    except ValueError as error:
        raise ValueError(f"compression ({_VARIABLES['compression']}): {error}") from None
