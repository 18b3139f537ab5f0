"""What a process may open and hold."""

from collections.abc import Iterator

from square.doctor.facts import Overlay
from square.doctor.finding import Finding, Severity
from square.doctor.rules import words

# A node's own, and the connections of a few neighbours: each link may use several.
SPARE_FILES = 64
FILES_PER_PEER = 4
# A node's window, what gRPC may hold, and one operation that is staged.
SCARCE_BYTES = 256 << 20
HARDLY_BYTES = 64 << 20


def few_files(overlay: Overlay) -> Iterator[Finding]:
    for node, report in overlay.reports():
        if report.max_files is None or report.open_files is None:
            continue
        wanted = report.open_files + max(SPARE_FILES, FILES_PER_PEER * len(node.peers))
        if report.max_files >= wanted:
            continue
        yield Finding(
            Severity.ERROR,
            "limit.files",
            f"node {node.name}",
            f"it may open {report.max_files} files and has {report.open_files}; with its "
            f"{len(node.peers)} neighbours it may need {wanted}, and then refuses connections",
            "start it after `ulimit -n 65536`, or with LimitNOFILE=65536 in its systemd unit",
        )


def little_memory(overlay: Overlay) -> Iterator[Finding]:
    for node, report in overlay.reports():
        left = report.memory_available_bytes
        if left is None or left >= SCARCE_BYTES:
            continue
        yield Finding(
            Severity.ERROR if left < HARDLY_BYTES else Severity.WARNING,
            "limit.memory",
            f"node {node.name}",
            f"its host or control group has {words.size(left)} of memory left",
            "give it more memory, or start it with a smaller --window-mib and --gateway-mib",
        )
