"""Which processes share a host, and where others reach it."""

import fcntl
import ipaddress
import os
import secrets
import socket
import struct

from square import _core

LOOPBACK = "127.0.0.1"
_SIOCGIFADDR = 0x8915
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_NETWORK_NAMESPACE = "/proc/self/ns/net"
# Documentation addresses, which nobody answers at: only the route is asked for, nothing is sent.
_ANYWHERE = "192.0.2.1"


def host_key() -> str:
    """The same for two processes exactly if each reaches the other's loopback."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot}/{os.readlink(_NETWORK_NAMESPACE)}"
    except OSError:
        return socket.gethostname()


def is_loopback(address: str) -> bool:
    """Of host or host:port; a name that does not resolve is none."""
    return _core.is_loopback(address)


def split_address(address: str) -> tuple[str, str]:
    """Host and port; the port is empty if there is none."""
    host, colon, port = address.rpartition(":")
    return (host.strip("[]"), port) if colon else (address, "")


def interface_address(interface: str) -> str:
    """The IPv4 address of an interface; an address is returned as it is. Raises ValueError."""
    try:
        return str(ipaddress.ip_address(interface))
    except ValueError:
        pass
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            request = struct.pack("256s", interface.encode()[:15])
            return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)[20:24])
        except OSError as error:
            known = ", ".join(name for _, name in socket.if_nameindex())
            raise ValueError(
                f"the network interface {interface!r} has no IPv4 address ({error.strerror}); "
                f"set SQUARE_INTERFACE to an address or to one of: {known}"
            ) from None


def address_towards(host: str) -> str | None:
    """The own address on the route to `host`, or None without a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])


def reachable_address(node: str) -> str:
    """Where other hosts reach this one, whose node has that address if it is known; else perhaps loopback."""
    if node:
        return split_address(node)[0]
    try:
        return public_address(None, None)
    except ValueError:
        return LOOPBACK


def unique_name() -> str:
    """Of a node that joins an overlay by itself: containers may all have the same host name."""
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"


def public_address(interface: str | None, towards: str | None) -> str:
    """Where other hosts reach this one: the interface's address, or that on the route to `towards`.

    Raises ValueError where there is only a loopback address.
    """
    if interface:
        return interface_address(interface)
    for host in (towards, _ANYWHERE):
        address = address_towards(host) if host else None
        if address is not None and not is_loopback(address):
            return address
    raise ValueError(
        "no address was found at which other hosts reach this one: set SQUARE_INTERFACE to the name or the "
        "address of a network interface"
    )
