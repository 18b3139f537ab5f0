"""Each rule of `square doctor` over facts that are made up: what it finds, and what it leaves alone."""

from dataclasses import replace

import pytest
import square.doctor.rules as all_rules
from square.doctor import Finding, Overlay, Severity, diagnose
from square.doctor.controller_line import explain
from square.doctor.facts import (
    Attempt,
    Connection,
    Difference,
    Identity,
    Link,
    LossyRelay,
    MeasuredLink,
    Node,
    Processor,
    Report,
)
from square.errors import UnavailableError

NAMES = ["a", "b", "c", "d"]
NOW = 2_000_000_000
DAY = 86_400


def healthy(names: list[str] = NAMES) -> Overlay:
    """Nodes that reach one another, each on a host of its own."""
    return Overlay(tuple(node(name, names) for name in names), "1.0", "10.0.0.100:7000", now=NOW)


def node(name: str, names: list[str]) -> Node:
    peers = [peer for peer in names if peer != name]
    attempts = tuple(Attempt(peer, f"{peer}:7001", round_trip_seconds=0.05) for peer in peers)
    links = tuple(Link(peer, capacity_bps=100e6, pace_bps=100e6) for peer in peers)
    return Node(
        name,
        f"{name}:7001",
        peers=tuple(peers),
        clock_doubt_seconds=0.1,
        report=Report(
            version="1.0",
            protocol=5,
            host=name,
            network=f"boot net:{name}",
            open_files=30,
            max_files=1024,
            memory_available_bytes=1 << 30,
            congestion="cubic",
            receive_buffer_bytes=6 << 20,
            send_buffer_bytes=4 << 20,
            processor=Processor(count=2, allowed=2, load=5.0, share=0.3, seconds=0.6),
            identity=Identity(f"spiffe://x.example/node/{name}", NOW - DAY, NOW + 29 * DAY),
            is_sealed=True,
            attempts=attempts,
            links=links,
        ),
    )


def changed(overlay: Overlay, name: str, **facts: object) -> Overlay:
    """With other facts of one node; those of its report, too."""

    def change(one: Node) -> Node:
        if one.name != name or one.report is None:
            return one
        own = {key: fact for key, fact in facts.items() if key in Node.__dataclass_fields__}
        reported = {key: fact for key, fact in facts.items() if key not in own}
        return replace(one, **{"report": replace(one.report, **reported), **own})

    return replace(overlay, nodes=tuple(map(change, overlay.nodes)))


def seen_at(overlay: Overlay, target: str, by: list[str], **facts: object) -> Overlay:
    """With another outcome of asking that node."""
    for name in by:
        asker = overlay.find(name)
        assert asker is not None
        assert asker.report is not None
        attempts = tuple(
            replace(attempt, **facts) if attempt.name == target else attempt
            for attempt in asker.report.attempts
        )
        overlay = changed(overlay, name, attempts=attempts)
    return overlay


def only(overlay: Overlay) -> Finding:
    [finding] = diagnose(overlay)
    return finding


def test_a_healthy_overlay_has_no_finding() -> None:
    assert diagnose(healthy()) == []
    assert diagnose(healthy(["a"])) == []
    assert diagnose(Overlay()) == []
    # All on one host, where a loopback address is as good as another.
    overlay = healthy()
    for name in NAMES:
        overlay = changed(overlay, name, network="one", address=f"127.0.0.1:{ord(name)}")
    assert diagnose(overlay) == []


def test_a_node_that_nobody_reaches_is_one_finding() -> None:
    for outcome in ("refused", "timed_out", "unreachable", "silent"):
        finding = only(seen_at(healthy(), "c", ["a", "b", "d"], outcome=outcome))
        assert finding.rule == f"reach.{outcome}"
        assert finding.guilty == "port c:7001 of node c"
        assert "a, b and d" in finding.seen
        assert "c itself reaches others" in finding.seen


def test_what_was_not_finished_in_time_is_not_judged() -> None:
    assert diagnose(seen_at(healthy(), "c", ["a", "b", "d"], outcome="unfinished")) == []


def test_one_way_is_told_from_a_closed_port() -> None:
    finding = only(seen_at(healthy(), "c", ["a"], outcome="timed_out"))
    assert finding.rule == "reach.one_way"
    assert finding.guilty == "link a -> c"
    assert "c reaches a: it is one way only" in finding.seen
    assert "nodes b and d reach c" in finding.seen


def test_two_that_do_not_reach_one_another_are_one_finding() -> None:
    overlay = seen_at(healthy(), "c", ["a"], outcome="timed_out")
    finding = only(seen_at(overlay, "a", ["c"], outcome="unreachable"))
    assert finding.rule == "reach.pair"
    assert finding.guilty == "links a -> c and c -> a"


def test_a_node_that_reaches_nobody_is_the_guilty_one() -> None:
    overlay = healthy()
    for target in ("b", "c", "d"):
        overlay = seen_at(overlay, target, ["a"], outcome="timed_out")
    finding = only(overlay)
    assert finding.rule == "reach.outgoing"
    assert finding.guilty == "node a"
    # Another fault beside it is told, too.
    both = diagnose(seen_at(overlay, "d", ["b", "c"], outcome="refused"))
    assert [finding.rule for finding in both] == ["reach.outgoing", "reach.refused"]
    assert "b and c (connections get no answer)" in both[0].seen


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("other_node", "node b answers at c:7001, which it advertises, too"),
        ("not_square", "another program than Square"),
        ("stranger", "do not believe one another"),
        ("other_version", "another protocol answers at c:7001 (speaks {9})"),
        ("unresolved", "the host's name c is not known"),
        ("other", "refuses links"),
    ],
)
def test_who_answers_in_a_nodes_place(outcome: str, words: str) -> None:
    overlay = seen_at(
        healthy(), "c", ["a", "b", "d"], outcome=outcome, node="b", words="speaks {9}", address="c:7001"
    )
    finding = only(changed(overlay, "b", address="c:7001"))
    assert finding.rule == f"address.{outcome}"
    assert finding.guilty == "port c:7001 of node c"
    assert words in finding.seen
    assert finding.seen.startswith("nodes a, b and d: ")


@pytest.mark.parametrize("address", ["127.0.0.1:7001", "localhost:7001", "[::1]:7001", "c:7001"])
def test_a_loopback_address_between_hosts(address: str) -> None:
    overlay = changed(healthy(), "c", address=address)
    # Nobody else can know what they find there; the name c stands for a loopback address, too.
    overlay = seen_at(overlay, "c", ["a"], outcome="other_node", node="a", at="127.0.0.1:7001")
    finding = only(seen_at(overlay, "c", ["b", "d"], outcome="refused"))
    assert finding.rule == "address.loopback"
    assert finding.guilty == "node c"
    assert "nodes a, b and d are on other hosts" in finding.seen


def test_nodes_that_are_not_there() -> None:
    overlay = changed(healthy(), "c", report=None, is_connected=False)
    assert only(overlay).rule == "presence.lost"
    finding = only(changed(healthy(), "c", report=None, is_connected=False, address=""))
    assert finding.rule == "presence.missing"
    assert finding.severity is Severity.WARNING
    assert "square node --name c --controller 10.0.0.100:7000" in finding.remedy


@pytest.mark.parametrize(
    ("outcome", "rule"), [("silent", "stopped"), ("timed_out", "cut_off"), ("reached", "mute")]
)
def test_a_node_that_does_not_answer_is_one_finding(outcome: str, rule: str) -> None:
    overlay = seen_at(healthy(), "c", ["a", "b", "d"], outcome=outcome)
    finding = only(changed(overlay, "c", report=None))
    assert finding.rule == f"presence.{rule}"
    assert finding.guilty == "node c"


def test_releases_that_differ() -> None:
    finding = only(changed(healthy(), "c", version="0.9"))
    assert finding.rule == "version.release"
    assert finding.severity is Severity.WARNING
    assert finding.guilty == "node c"
    finding = only(changed(healthy(), "c", version="0.9", protocol=4))
    assert finding.rule == "version.protocol"
    assert finding.severity is Severity.ERROR
    # The next release, which still speaks this one's protocol.
    finding = only(changed(healthy(), "c", version="1.1", protocol=6, oldest_protocol=5))
    assert finding.rule == "version.release"
    finding = only(changed(healthy(), "c", version="1.2", protocol=7, oldest_protocol=6))
    assert finding.rule == "version.protocol"
    # One against one: the controller's is right.
    finding = only(changed(healthy(["a", "b"]), "a", version="2.0"))
    assert finding.guilty == "node a"
    assert only(replace(healthy(), version="2.0")).guilty == "controller"


def test_clocks_that_differ() -> None:
    finding = only(changed(healthy(), "c", clock_ahead_seconds=3600.0))
    assert finding.rule == "clock.differs"
    assert finding.severity is Severity.ERROR
    assert finding.guilty == "node c"
    assert "60 minutes ahead of the controller's" in finding.seen
    finding = only(changed(healthy(), "c", clock_ahead_seconds=-5.0))
    assert finding.severity is Severity.WARNING
    assert "5 s behind" in finding.seen
    # What the way may explain is no fault.
    assert diagnose(changed(healthy(), "c", clock_ahead_seconds=5.0, clock_doubt_seconds=4.5)) == []


def test_a_controllers_clock_is_told_once() -> None:
    overlay = healthy()
    for name in NAMES:
        overlay = changed(overlay, name, clock_ahead_seconds=100.0)
    finding = only(overlay)
    assert finding.guilty == "controller"
    assert "100 s behind most nodes'" in finding.seen


def test_a_link_slower_than_planned() -> None:
    def with_link(*connections: Connection, **facts: object) -> Overlay:
        link = Link("b", **{"capacity_bps": 20e6, "pace_bps": 20e6, **facts})
        overlay = seen_at(healthy(), "b", ["a"], at="10.0.0.2:7001")
        return changed(overlay, "a", links=(link,), connections=connections)

    slow = Connection("10.0.0.2:7001", rate_bps=2.5e6, waiting_bytes=50_000)
    finding = only(with_link(slow, slow, Connection("10.0.0.9:7001")))
    assert finding.rule == "capacity.slow"
    assert finding.guilty == "link a -> b"
    assert "carries 5 Mbit/s, and the plan counts on 20 Mbit/s" in finding.seen
    assert diagnose(with_link()) == []
    # It had nothing to send, or enough went through, or the receiver held it back.
    assert diagnose(with_link(replace(slow, waiting_bytes=0))) == []
    assert diagnose(with_link(replace(slow, rate_bps=18e6))) == []
    assert diagnose(with_link(replace(slow, held_seconds=0.5))) == []
    assert diagnose(with_link(slow, capacity_bps=None, pace_bps=None)) == []


def test_a_link_slower_than_the_topology_says() -> None:
    def with_measured(measured_bps: float) -> Overlay:
        link = MeasuredLink("a", "b", given_bps=20e6, planned_bps=measured_bps, measured_bps=measured_bps)
        return replace(healthy(), measured=(link,))

    finding = only(with_measured(5e6))
    assert (finding.rule, finding.guilty) == ("capacity.slow", "link a -> b")
    assert "carries 5 Mbit/s as measured, and the topology says 20 Mbit/s" in finding.seen
    assert diagnose(with_measured(19e6)) == []


def test_buffers_smaller_than_links_need() -> None:
    finding = only(changed(healthy(), "b", receive_buffer_bytes=16_384, links=()))
    assert finding.rule == "network.buffers"
    assert finding.guilty == "node b"
    assert "its tcp_rmem allows 16 KiB a connection: link a -> b (and 2 more of its links)" in finding.seen
    finding = only(changed(healthy(["a", "b"]), "a", send_buffer_bytes=16_384))
    assert (finding.guilty, "its tcp_wmem" in finding.seen) == ("node a", True)


def test_congestion_controls_that_differ() -> None:
    finding = only(changed(healthy(), "c", congestion="bbr"))
    assert finding.rule == "network.congestion"
    assert finding.guilty == "node c"
    assert finding.severity is Severity.WARNING
    # What its connections use counts.
    overlay = changed(healthy(), "c", congestion="bbr")
    for peer in ("a", "b", "d"):
        overlay = seen_at(overlay, peer, ["c"], congestion="cubic")
    assert diagnose(overlay) == []


def test_few_files_and_little_memory() -> None:
    finding = only(changed(healthy(), "c", max_files=64))
    assert finding.rule == "limit.files"
    assert "may open 64 files and has 30" in finding.seen
    assert diagnose(changed(healthy(), "c", max_files=None)) == []
    finding = only(changed(healthy(), "c", memory_available_bytes=100 << 20))
    assert (finding.rule, finding.severity) == ("limit.memory", Severity.WARNING)
    finding = only(changed(healthy(), "c", memory_available_bytes=10 << 20))
    assert finding.severity is Severity.ERROR


def test_a_node_short_of_processor_is_told_from_a_busy_host() -> None:
    def with_processor(**facts: object) -> Overlay:
        usual = {"count": 2, "allowed": 2, "load": 4.0, "running": 3.0, "seconds": 0.6}
        return changed(healthy(), "c", processor=Processor(**{**usual, **facts}))

    finding = only(with_processor(share=0.015, nice=19))
    assert (finding.rule, finding.severity) == ("processor.share", Severity.ERROR)
    assert "got 1.5% of a processor" in finding.seen
    assert "leaves 50% to each; its priority is low (nice 19)" in finding.seen
    assert "it may use 1 of 2 processors" in only(with_processor(share=0.05, allowed=1)).seen
    # What the host's load leaves is no fault of the node; it is said where it is very little.
    assert diagnose(with_processor(share=0.15, load=17.0)) == []
    finding = only(with_processor(share=0.06, running=34.0))
    assert (finding.rule, finding.severity) == ("processor.crowded", Severity.WARNING)
    assert "34 threads on 2 processors" in finding.seen
    finding = only(with_processor(quota=0.1, share=0.1, throttled_seconds=0.5))
    assert (finding.rule, "0.1 processors" in finding.seen) == ("processor.quota", True)


def test_findings_come_the_worst_first() -> None:
    overlay = changed(healthy(), "a", version="0.9")
    found = diagnose(changed(overlay, "c", max_files=40))
    assert [finding.severity for finding in found] == [Severity.ERROR, Severity.WARNING]


def test_a_report_of_another_release_is_read_as_far_as_it_goes() -> None:
    for document in ({}, {"host": 3, "peers": [7, {"name": 1}], "limits": None, "processor": []}):
        report = Report.read(document)
        assert report.max_files is None
        assert all(attempt.outcome == "other" for attempt in report.attempts)
    assert Report.read({"protocol": True}).protocol is None


def test_a_controller_that_stands_by_is_told_from_one_that_is_not_there() -> None:
    words = "controller at 10.0.0.1:7000: this controller stands by until those before it are gone"
    assert explain("10.0.0.1:7000", UnavailableError(words)).rule == "controller.stands_by"


def test_every_rule_is_used() -> None:
    assert len({*all_rules.RULES, *all_rules.SECURITY_RULES}) == 20


def test_certificates_that_end_are_told_in_time_and_by_name() -> None:
    nearly = Identity("spiffe://x.example/node/b", NOW - 29 * DAY, NOW + DAY)
    (finding,) = diagnose(changed(healthy(), "b", identity=nearly))
    assert finding.severity is Severity.WARNING
    assert finding.rule == "security.certificate"
    assert "node b" in finding.guilty
    assert "24 hours" in finding.seen
    assert "square ca issue --node b" in finding.remedy
    over = Identity("spiffe://x.example/node/b", NOW - 30 * DAY, NOW - 1)
    (finding,) = diagnose(changed(healthy(), "b", identity=over))
    assert finding.severity is Severity.ERROR
    assert "has expired" in finding.seen
    (finding,) = diagnose(changed(healthy(), "b", identity=Identity(trouble="cannot read b/identity.pem")))
    assert "b/identity.pem" in finding.seen


def test_jobs_that_know_one_another_by_fingerprints_need_no_new_certificates_and_seal_nothing() -> None:
    overlay = healthy()
    for name in NAMES:
        own = Identity("", NOW - 29 * DAY, NOW + DAY)
        overlay = changed(overlay, name, identity=own, is_sealed=False)
    assert diagnose(overlay) == []


def test_no_identities_over_several_hosts_are_told_and_on_one_host_are_not() -> None:
    overlay = healthy()
    for name in NAMES:
        overlay = changed(overlay, name, identity=None, is_sealed=False)
    assert diagnose(overlay) == []  # who asks is told
    (finding,) = diagnose(overlay, all_rules.SECURITY_RULES)
    assert finding.rule == "security.insecure"
    assert "nodes a, b, c and d" in finding.guilty
    for name in NAMES:
        overlay = changed(overlay, name, network="boot net:one")
    assert diagnose(overlay, all_rules.SECURITY_RULES) == []


def test_who_seals_and_who_does_not_is_told() -> None:
    (finding,) = diagnose(changed(healthy(), "c", is_sealed=False))
    assert finding.rule == "security.unsealed"
    assert finding.severity is Severity.ERROR
    assert finding.guilty == "node c"
    assert "refused" in finding.seen
    overlay = healthy()
    for name in NAMES:
        overlay = changed(overlay, name, is_sealed=False)
    (finding,) = diagnose(overlay)
    assert finding.severity is Severity.WARNING
    assert "relays can read them" in finding.seen


def test_a_relay_that_loses_blocks_is_one_finding_and_named() -> None:
    overlay = healthy()
    seen = "of 100 blocks that were to come through it in 2.0 s, 31 were lost"
    for name in ("a", "b"):
        overlay = changed(overlay, name, lossy=(LossyRelay("c", seen=seen),))
    finding = only(overlay)
    assert (finding.rule, finding.guilty) == ("relay.loses", "node c")
    assert finding.seen.startswith(f"nodes a and b see that blocks are lost there: {seen}")
    way = only(changed(healthy(), "a", lossy=(LossyRelay("c", is_way=True, seen=seen),)))
    assert way.guilty == "the way through node c"
    assert "behind it" in way.remedy


def test_links_that_are_refused_now_and_then() -> None:
    finding = only(changed(healthy(), "a", refused=("c",)))
    assert (finding.rule, finding.guilty) == ("link.refused", "link a -> c")
    assert finding.severity is Severity.WARNING
    # Where the question is refused, too, one finding says it.
    assert (
        only(changed(seen_at(healthy(), "c", ["a", "b", "d"], outcome="refused"), "a", refused=("c",))).rule
        == "reach.refused"
    )


def test_neighbours_that_differ_about_blocks_are_named() -> None:
    overlay = replace(healthy(), differences=(Difference("a", "c", 12), Difference("c", "d", 3)))
    first, second = diagnose(overlay)
    assert first.rule == second.rule == "security.changed"
    assert "nodes a and c" in first.guilty
    assert "12 blocks" in first.seen
