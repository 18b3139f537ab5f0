"""The names of the metrics, and which figure of a node's snapshot each of them shows."""

from typing import NamedTuple


class Family(NamedTuple):
    """One metric. A counter's name gets ``_total`` at its end."""

    name: str
    kind: str
    what: str
    # By the value of this further label, if there is one: the key of the snapshot.
    label: str
    keys: dict[str, str]


NODE: list[Family] = [
    Family(
        "square_node_plan_epoch", "gauge", "Number of the active plan; 0 before the first.", "", {"": "epoch"}
    ),
    Family(
        "square_node_refused_frames",
        "counter",
        "Frames that were not taken: of no known session, beyond credit, and the like.",
        "",
        {"": "frames_refused"},
    ),
    Family(
        "square_node_forged_blocks",
        "counter",
        "Of which: blocks that were not what their sources have sealed.",
        "",
        {"": "blocks_forged"},
    ),
    Family(
        "square_node_transit_bytes",
        "gauge",
        "Blocks of others that this node holds right now.",
        "",
        {"": "bytes_in_transit"},
    ),
    Family(
        "square_node_transit_max_bytes",
        "gauge",
        "The most of them at any time since the node started.",
        "",
        {"": "bytes_in_transit_max"},
    ),
]

LINK: list[Family] = [
    Family("square_link_up", "gauge", "1 while the link is up.", "", {"": "is_up"}),
    Family("square_link_channels", "gauge", "Connections that carry the link.", "", {"": "channels"}),
    Family("square_link_bytes", "counter", "Payload carried by the link.", "", {"": "bytes"}),
    Family("square_link_blocks", "counter", "Blocks carried by the link.", "", {"": "blocks"}),
    Family(
        "square_link_wire_bytes",
        "counter",
        "Bytes on the wire, headers included; out with this node's answers.",
        "",
        {"": "wire_bytes"},
    ),
    Family(
        "square_link_retransmitted_blocks",
        "counter",
        "Blocks that this node, as their source, sent again after a loss.",
        "",
        {"": "blocks_resent"},
    ),
    Family(
        "square_link_capacity_bits_per_second",
        "gauge",
        "Capacity in the active plan; +Inf without a limit.",
        "",
        {"": "capacity_bps"},
    ),
    Family(
        "square_link_planned_bits_per_second",
        "gauge",
        "Load in the active plan, over all streams.",
        "",
        {"": "planned_bps"},
    ),
    Family(
        "square_link_pace_bits_per_second",
        "gauge",
        "What the pacer lets through; +Inf if it does not pace.",
        "",
        {"": "pace_bps"},
    ),
    Family("square_link_queue_blocks", "gauge", "Blocks that wait to be sent.", "", {"": "queue_blocks"}),
    Family("square_link_queue_bytes", "gauge", "Payload that waits to be sent.", "", {"": "queue_bytes"}),
    Family(
        "square_link_round_trip_seconds",
        "gauge",
        "Round-trip time as measured last.",
        "",
        {"": "round_trip_seconds"},
    ),
]

_BYTES = {"sent": "bytes_sent", "received": "bytes_received", "delivered": "bytes_delivered"}
_PLANNED = {"whole": "planned_bps", "sent": "planned_sent_bps", "received": "planned_received_bps"}

SESSION: list[Family] = [
    Family(
        "square_session_bytes",
        "counter",
        "Payload of the session that this node sent, received, and delivered into members' buffers.",
        "direction",
        _BYTES,
    ),
    Family(
        "square_session_rate_bits_per_second",
        "gauge",
        "Rate in the active plan: of the whole session, and what this node sends and receives of it.",
        "planned",
        _PLANNED,
    ),
    Family(
        "square_session_retransmitted_blocks",
        "counter",
        "Blocks that this node, as the source, sent again after a loss.",
        "",
        {"": "blocks_resent"},
    ),
    Family("square_session_queue_blocks", "gauge", "Blocks that wait to be sent.", "", {"": "queue_blocks"}),
    Family("square_session_queue_bytes", "gauge", "Payload that waits to be sent.", "", {"": "queue_bytes"}),
]

TENANT: list[Family] = [
    Family(
        "square_tenant_bytes",
        "counter",
        "Payload of the tenant that this node sent, received, and delivered into members' buffers.",
        "direction",
        _BYTES,
    ),
    Family(
        "square_tenant_rate_bits_per_second",
        "gauge",
        "Rate in the active plan: of all the tenant's collectives, and what this node sends and receives.",
        "planned",
        _PLANNED,
    ),
    Family(
        "square_tenant_retransmitted_blocks",
        "counter",
        "Blocks that this node, as their source, sent again after a loss.",
        "",
        {"": "blocks_resent"},
    ),
    Family(
        "square_tenant_memory_bytes",
        "gauge",
        "Blocks of the tenant here: in transit, and held until a member calls its operation.",
        "state",
        {"transit": "bytes_in_transit", "held": "bytes_held"},
    ),
]

# Which keys of a snapshot's rows are labels of their metrics, beside the node's name.
LINK_LABELS = ("peer", "direction")
SESSION_LABELS = ("session", "collective", "tenant", "kind")
TENANT_LABELS = ("tenant",)
NUMBERED = ("session", "collective")

# A rate of None has no limit. Other figures that are None were not measured.
UNLIMITED = {"capacity_bps", "pace_bps"}
# Figures that only the sending end of a link has.
ONLY_OUT = {"pace_bps", "queue_blocks", "queue_bytes", "blocks_resent"}
