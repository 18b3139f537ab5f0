"""Why a controller does not answer, as far as it can be seen from here."""

import socket
import ssl

from square.doctor.finding import Finding, Severity
from square.errors import PermissionDeniedError, SquareError, UnauthenticatedError, UnimplementedError

CONNECT_SECONDS = 3.0
# As a controller says it that is to succeed another one.
_STANDS_BY = "this controller stands by"
# What gRPC says where one of the two does not believe the other, or only one speaks TLS.
_OF_TLS = ("handshake failed", "verification check failed")


def explain(controller: str, error: SquareError) -> Finding:
    """The finding for an examination that failed with ``error``. Blocks while it dials."""
    rule, seen, remedy = _by_answer(controller, error) or _by_dialling(controller, error)
    return Finding(Severity.ERROR, f"controller.{rule}", f"controller at {controller}", seen, remedy)


def _by_answer(controller: str, error: SquareError) -> tuple[str, str, str] | None:
    """Something spoke gRPC."""
    if isinstance(error, (UnauthenticatedError, PermissionDeniedError)):
        return _stranger(error)
    if _STANDS_BY in str(error):
        return (
            "stands_by",
            "a controller listens there that stands by: another one has the overlay",
            "give the address of the controller that has it, which the nodes' logs name",
        )
    if isinstance(error, UnimplementedError):
        if 'node "' in str(error):
            return (
                "node",
                f"a node of Square listens there, no controller: {error}",
                "give the address that `square controller` printed",
            )
        return (
            "unknown",
            "what listens there does not know the question: a controller of another release, or none "
            f"({error})",
            f"see which program has the port (ss -ltnp on {controller}'s host); run one release of Square",
        )
    return None


def _stranger(error: SquareError) -> tuple[str, str, str]:
    return (
        "stranger",
        f"it and who asks do not believe one another: {error}",
        "give --identity the folder of an identity that its authority has issued",
    )


def _speaks_tls(connection: socket.socket) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with context.wrap_socket(connection):
            return True
    except (OSError, ValueError):
        return False


def _by_dialling(controller: str, error: SquareError) -> tuple[str, str, str]:
    host, _, port = controller.rpartition(":")
    host = host.strip("[]")
    start = "start one with `square controller`, or give the address that it printed"
    try:
        socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except OSError:
        return (
            "unresolved",
            f"nobody knows the host's name {host!r}",
            "give an IP address, or a name that DNS or /etc/hosts knows",
        )
    try:
        with socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS) as connection:
            is_stranger = any(words in str(error) for words in _OF_TLS) or _speaks_tls(connection)
    except ConnectionRefusedError:
        return "refused", "the host answers that nothing listens there", start
    except TimeoutError:
        return (
            "timed_out",
            "connections get no answer",
            f"see whether {host} runs, and whether a firewall on the way drops port {port}",
        )
    except OSError as failure:
        return "unreachable", f"no connection: {failure.strerror}", f"see the network's routes to {host}"
    if is_stranger:
        return _stranger(error)
    return (
        "not_square",
        f"something takes connections there and does not answer as a controller: {error}",
        f"see which program has port {port} (ss -ltnp), and whether it is stopped; {start}",
    )
