"""Network namespaces without a name: the kernel takes them back with their last user.

A namespace lives as long as a process in it, a descriptor of it or a socket made in it, and
takes its interfaces and queueing disciplines along. So nothing is left behind, however the
processes ended.
"""

import ctypes
import os
import platform
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from square.errors import FailedPreconditionError, InternalError, PermissionDeniedError

CONGESTION_CONTROL = "cubic"
# One batch of ip or tc; some milliseconds a line at the most.
BATCH_SECONDS = 60.0

_CLONE_NEWNET = 0x40000000
_IPV6_FOLDERS = (Path("/proc/sys/net/ipv6/conf/all"), Path("/proc/sys/net/ipv6/conf/default"))
_ORPHANS = (Path("/proc/sys/net/ipv4/tcp_orphan_retries"), "2")  # within seconds; the kernel's 8 take minutes
# Where Debian has ip and tc, which is not in everybody's PATH.
_MORE_FOLDERS = ("/usr/sbin", "/sbin")
_REFUSED = "Operation not permitted"
_ADVICE = (
    "run it as root, or under `unshare --user --map-root-user`, on a kernel with veth, tbf and tcp_cubic "
    "(where nodes have limits ifb, u32 and mirred too); `square run` without --emulate netns needs none and "
    "can pace on loopback"
)

Answer = TypeVar("Answer")


def check_possible() -> None:
    """Raises, and says what to do, where this machine has no namespaces or not the programs."""
    if platform.system() != "Linux":
        raise FailedPreconditionError(
            "network namespaces need Linux; without --emulate netns, `square run` can pace on loopback"
        )
    for program in ("ip", "tc"):
        _path_of(program)


def enter_new() -> None:
    """Puts the calling thread, and those that it starts from now on, into a fresh network."""
    if _libc().unshare(_CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise PermissionDeniedError(f"the kernel refused to make a network namespace: {reason}; {_ADVICE}")


def enter(file: str) -> None:
    """Puts the calling thread into the network of this file: ``Namespace.file``."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter_descriptor(descriptor)
    finally:
        os.close(descriptor)


def isolate_process() -> None:
    """Puts the whole process, which must have one thread only, into a fresh network."""
    if len(os.listdir("/proc/self/task")) != 1:
        raise InternalError("a process with several threads cannot change its network as a whole")
    enter_new()
    _set_up()


def _set_up() -> None:
    """In the calling thread's network: IPv6 looks for routers on every new link, and a connection whose
    process died keeps the network for as long as it tries to say so."""
    for file, value in (*((folder / "disable_ipv6", "1") for folder in _IPV6_FOLDERS), _ORPHANS):
        try:
            file.write_text(value, encoding="ascii")
        except OSError:
            continue  # a kernel without it


def run_batch(program: str, lines: Sequence[str]) -> None:
    """Lets ip or tc carry out these lines in the calling thread's network. The first that fails raises."""
    if not lines:
        return
    result = subprocess.run(
        [_path_of(program), "-batch", "-"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=BATCH_SECONDS,
        check=False,
    )
    if result.returncode == 0:
        return
    complaint = result.stderr.strip() or f"exit code {result.returncode}"
    failed = complaint.rpartition("Command failed -:")[2]
    line = lines[int(failed) - 1] if failed.isdigit() and 0 < int(failed) <= len(lines) else ""
    kind = PermissionDeniedError if _REFUSED in complaint else FailedPreconditionError
    raise kind(f"network namespaces: `{program} {line}` failed: {complaint.splitlines()[0]}; {_ADVICE}")


def tc_json(*arguments: str) -> str:
    """What tc prints about the calling thread's network."""
    command = [_path_of("tc"), "-s", "-j", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=BATCH_SECONDS, check=True).stdout


class Namespace:
    """A fresh network that this process holds a descriptor of and is not in itself."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        _in_thread(self._make)

    def run(self, function: Callable[[], Answer]) -> Answer:
        """Calls it in a thread that is in this network, and so is what it starts. Blocks."""

        def call() -> Answer:
            assert self._descriptor is not None
            _enter_descriptor(self._descriptor)
            return function()

        return _in_thread(call)

    @property
    def file(self) -> str:
        """What another process of this user may open, while this one lives and has not closed it."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _make(self) -> None:
        enter_new()
        _set_up()
        self._descriptor = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _enter_descriptor(descriptor: int) -> None:
    if _libc().setns(descriptor, _CLONE_NEWNET) != 0:
        raise InternalError(f"no way into a network: {os.strerror(ctypes.get_errno())}")


def _in_thread(function: Callable[[], Answer]) -> Answer:
    """A thread of its own, since where a thread is stays with it."""
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="square-network")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _path_of(program: str) -> str:
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *_MORE_FOLDERS]
    found = shutil.which(program, path=os.pathsep.join(folders))
    if found is None:
        raise FailedPreconditionError(
            f"network namespaces need the program `{program}`: install iproute2; without --emulate netns, "
            "`square run` can pace on loopback"
        )
    return found
