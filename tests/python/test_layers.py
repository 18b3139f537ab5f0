"""Reads the includes of the C++ sources and refuses a wrong arrow.

Arrows run downwards only; neighbours of one level do not know one another; a node sees the
plan, not the planner; each foreign library is known in its own folders only. That the validator
shares no code with the planner needs no rule: it is below it, and test_validator links it alone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

LEVELS = {
    "proto": 0,
    "base": 0,
    "topology": 1,
    "coding": 1,
    "lp": 1,
    "store": 1,
    "trust": 1,  # with grpc/ inside
    "validator": 1,
    "planning": 2,
    "transport": 2,  # with grpc/, sim/ and pacing/ inside
    "node": 3,
    "controller": 3,
    "simulation": 4,
    "collective": 4,
    "gateway": 5,
    "ps": 5,
    "bindings": 6,
}

# Which folder a header of include/square/ belongs to. A new header needs a line here.
PUBLIC_HEADERS = {
    "coded_block.h": "coding",
    "decoder.h": "coding",
    "encoder.h": "coding",
    "field_kind.h": "base",
    "recoder.h": "coding",
    "budget.h": "base",
    "block_sight.h": "base",
    "buffer.h": "base",
    "clock.h": "base",
    "collective_op.h": "base",
    "ids.h": "base",
    "authority.h": "trust",
    "grant.h": "trust",
    "identity.h": "trust",
    "finished_operations.h": "base",
    "link_report.h": "base",
    "lost_controller.h": "base",
    "log.h": "base",
    "plan.h": "base",
    "process_memory.h": "base",
    "quota.h": "base",
    "reduction.h": "base",
    "status.h": "base",
    "units.h": "base",
    "compression.h": "coding",
    "paths.h": "topology",
    "reachability.h": "topology",
    "topology.h": "topology",
    "validator.h": "validator",
    "limits.h": "planning",
    "planner.h": "planning",
    "plan_simulation.h": "simulation",
    "scenario.h": "planning",
    "executor.h": "transport",
    "frame.h": "transport",
    "grpc_transport.h": "transport",
    "simulation.h": "transport",
    "thread_executor.h": "transport",
    "transport.h": "transport",
    "metrics.h": "node",
    "data_plane.h": "node",
    "controlled_node.h": "controller",
    "controller.h": "controller",
    "controller_client.h": "controller",
    "group.h": "controller",
    "overlay_information.h": "controller",
    "group_call.h": "node",
    "call_progress.h": "node",
    "communicator.h": "collective",
    "flight_record.h": "collective",
    "gateway.h": "gateway",
    "member_host.h": "collective",
    "node.h": "collective",
    "outer_optimizer.h": "ps",
    "parameter_server.h": "ps",
    "training_options.h": "ps",
}

# Folders that are below another one and still none of its business.
UNSEEN = {("node", "planning")}  # a node sees the plan, not the planner

# Foreign libraries and the folders that may know them.
GRPC_FOLDERS = {"trust/grpc", "transport/grpc", "controller/grpc", "ps/grpc"}
FOREIGN = {
    "xtensor": (re.compile(r"^xtensor/"), {"coding"}),
    "CLP": (re.compile(r"^(coin/|Clp|Coin)"), {"lp"}),
    "Boost": (re.compile(r"^boost/"), {"topology", "planning"}),
    "gRPC": (
        re.compile(r"^(grpc|grpcpp)/|\.grpc\.pb\.h$"),
        {"trust/grpc", "transport/grpc", "controller/grpc", "ps/grpc"},
    ),
    "Protobuf": (re.compile(r"^google/protobuf/"), {"controller", "transport", "ps", "trust"}),
    "pugixml": (re.compile(r"^pugixml"), {"topology"}),
    "OpenSSL": (re.compile(r"^openssl/"), {"trust"}),
    "SQLite": (re.compile(r"^sqlite3"), {"store"}),
    "PostgreSQL": (re.compile(r"^libpq"), {"store"}),
    "pybind11": (re.compile(r"^pybind11/"), {"bindings"}),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A C++ file: where it is in the repository and what it says."""

    path: str
    text: str

    @property
    def folder(self) -> str:
        parts = Path(self.path).parts
        if parts[0] == "src":
            return parts[1]
        if parts[:2] == ("include", "square"):
            return PUBLIC_HEADERS.get(parts[-1], "")
        return parts[0]

    def is_in(self, folders: set[str]) -> bool:
        return any(self.path.startswith(f"{'' if name == 'bindings' else 'src/'}{name}/") for name in folders)


def folder_of(include: str, source: Source) -> str | None:
    """The folder of one of our headers; "" if it is ours and unknown, None if it is not ours."""
    parts = Path(include).parts
    if include.startswith("square/v"):
        return "proto"
    if parts[0] == "square":
        return PUBLIC_HEADERS.get(parts[-1], "")
    if parts[0] in LEVELS:
        return parts[0]
    return source.folder if len(parts) == 1 and include.endswith(".h") else None


def wrong_arrows(source: Source) -> Iterator[str]:
    """Says in words what is wrong with the includes of one file."""
    here = source.folder
    if here not in LEVELS:
        yield f"{source.path}: belongs to no folder of LEVELS or PUBLIC_HEADERS; add a line there"
        return
    public = source.path.startswith("include/")
    for quoted, angled in INCLUDE.findall(source.text):
        include = quoted or angled
        for library, (pattern, folders) in FOREIGN.items():
            if pattern.search(include) and (public or not source.is_in(folders)):
                yield f"{source.path}: {include}: {library} is known in {sorted(folders)} only, not in public"
        there = folder_of(include, source) if quoted or include.startswith("square/") else None
        if there is None:
            continue
        if there == "":
            yield f"{source.path}: {include}: a public header that PUBLIC_HEADERS does not name"
        elif public and not include.startswith("square/"):
            yield f"{source.path}: {include}: a public header includes public headers only"
        elif there != here and LEVELS[there] >= LEVELS[here]:
            yield (
                f"{source.path}: {include}: {here} (level {LEVELS[here]}) must not know "
                f"{there} (level {LEVELS[there]})"
            )
        elif (here, there) in UNSEEN:
            yield f"{source.path}: {include}: {here} must not know {there}"


def sources(repository: Path) -> list[Source]:
    return [
        Source(str(path.relative_to(repository)), path.read_text(encoding="utf-8"))
        for top in ("src", "include/square", "bindings")
        for path in sorted((repository / top).rglob("*"))
        if path.suffix in {".h", ".cc"}
    ]


def test_every_arrow_runs_downwards(repository: Path) -> None:
    found = sources(repository)
    assert len(found) > 20, "the sources were not found"
    assert [complaint for source in found for complaint in wrong_arrows(source)] == []


def test_linked_folders_follow_the_same_arrows(repository: Path) -> None:
    """What a folder's CMakeLists.txt names under DEPENDS is below it, too."""
    wrong = []
    for path in sorted((repository / "src").rglob("CMakeLists.txt")):
        declared = re.search(r"square_folder\((\w+)(.*?)\)", path.read_text(encoding="utf-8"), re.DOTALL)
        if declared is None:
            continue
        here = declared[1].removesuffix("_grpc")
        depends = re.search(r"DEPENDS([\sa-z_]+)", declared[2])
        for name in depends[1].split() if depends else []:
            there = name.removesuffix("_grpc")
            if there != here and (LEVELS[there] >= LEVELS[here] or (here, there) in UNSEEN):
                wrong.append(f"{declared[1]} -> {name}")
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/base/status.cc", '"square/topology.h"'),  # upwards
        ("src/lp/solver.cc", '"square/topology.h"'),  # neighbours of level 1
        ("src/transport/frame.cc", '"square/planner.h"'),  # neighbours of level 2
        ("src/planning/planner.cc", '"transport/pacing/pacer.h"'),
        ("src/node/data_plane.cc", '"square/planner.h"'),
        ("src/node/data_plane.cc", '"planning/square/shots.h"'),
        ("src/node/data_plane.cc", '"square/controller.h"'),  # neighbours of level 3
        ("src/validator/validator.cc", '"planning/square/shots.h"'),
        ("src/validator/flows.cc", '"square/paths.h"'),
        ("src/controller/controller.cc", "<square/communicator.h>"),
        ("src/planning/planner.cc", "<coin/ClpSimplex.hpp>"),
        ("src/collective/node.cc", '"square/gateway.h"'),
        ("src/node/data_plane.cc", "<grpcpp/grpcpp.h>"),
        ("src/controller/coordinator.cc", "<grpcpp/grpcpp.h>"),  # it runs in the simulation
        ("src/controller/coordinator.cc", '"square/v1/controller.grpc.pb.h"'),
        ("src/node/data_plane.cc", '"square/not_in_the_table.h"'),
        ("src/manager/manager.cc", "<vector>"),  # a folder that nobody knows
        ("include/square/topology.h", "<boost/graph/adjacency_list.hpp>"),
        ("include/square/plan.h", '"planning/square/shots.h"'),
        ("include/square/not_in_the_table.h", "<vector>"),
        ("include/square/status.h", '"square/topology.h"'),
        ("include/square/plan.h", '"square/scenario.h"'),
    ],
)
def test_a_wrong_arrow_is_refused(path: str, include: str) -> None:
    assert list(wrong_arrows(Source(path, f"#include {include}\n")))


def test_a_nodes_side_of_control_has_no_threads_and_no_wire(repository: Path) -> None:
    """The simulation runs what ships: nothing there waits, locks or knows gRPC."""
    foreign = re.compile(r"grpc|std::thread|mutex|condition_variable|std::future")
    sources = sorted((repository / "src/controller/node_control").glob("*.*"))
    assert len(sources) > 10
    assert [path.name for path in sources if foreign.search(path.read_text())] == []


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/node/data_plane.cc", '"square/plan.h"'),
        ("src/node/data_plane.cc", '"transport/pacing/link_scheduler.h"'),
        ("src/planning/square/shots.cc", '"square/planner.h"'),
        ("src/planning/planner.cc", '"square/validator.h"'),
        ("src/validator/flows.cc", '"validator/checks.h"'),
        ("src/validator/flows.cc", '"square/plan.h"'),
        ("src/planning/square/shots.cc", '"lp/solver.h"'),
        ("src/lp/solver.cc", "<coin/ClpSimplex.hpp>"),
        ("src/transport/grpc/grpc_transport.cc", "<grpcpp/grpcpp.h>"),
        ("src/controller/grpc/controller.cc", '"square/v1/control.grpc.pb.h"'),
        ("bindings/plan.cc", '"square/communicator.h"'),
        ("include/square/planner.h", '"square/scenario.h"'),
    ],
)
def test_a_right_arrow_passes(path: str, include: str) -> None:
    assert list(wrong_arrows(Source(path, f"#include {include}\n"))) == []
