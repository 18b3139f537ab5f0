"""How ranks find a controller, and who of them shares a node."""

import os
import pwd
import threading
from pathlib import Path
from typing import Any

import pytest
import ranks
import square
import torch
from square import hosts
from square.torch.bootstrap import Card, _assign
from square.torch.options import Options, login_name
from torch import distributed as dist


def test_options_come_from_the_call_then_from_the_environment() -> None:
    environment = {
        "SQUARE_TENANT": "alice",
        "SQUARE_WEIGHT": "2.5",
        "SQUARE_NODE": "",
        "SQUARE_IDENTITY": "i",
    }
    options = Options.resolve(Options(tenant="bob"), environment)
    assert options == Options(tenant="bob", weight=2.5, identity="i")
    assert Options.resolve(None, {}) == Options()


def test_without_a_name_the_tenant_is_the_login_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert login_name({"LOGNAME": "alice", "USER": "bob"}) == "alice"
    assert login_name({"LOGNAME": "", "USER": "bob"}) == "bob"
    assert login_name({}) == pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr(os, "getuid", lambda: 54_321)
    assert login_name({}) == "uid 54321"


@pytest.mark.parametrize(
    ("environments", "tenant"),
    [
        ([{"LOGNAME": "alice"}, {"LOGNAME": "bob"}, {"LOGNAME": "bob"}], "alice"),
        ([{"SQUARE_TENANT": "team", "LOGNAME": "alice"}, {"SQUARE_TENANT": "other"}, {}], "team"),
        ([{"LOGNAME": "alice"}, {"SQUARE_TENANT": "other"}, {}], "alice"),
    ],
)
def test_all_ranks_have_the_first_ones_tenant(environments: list[dict[str, str]], tenant: str) -> None:
    seen: set[str] = set()
    over = threading.Event()

    def watch(controller: square.Controller) -> None:
        # The groups leave the plan when they are destroyed.
        while not over.wait(0.01):
            if (plan := controller.plan()) is not None:
                seen.update(collective.tenant for collective in plan.collectives)

    with square.Controller() as controller, square.Node("here", controller.address) as node:
        watching = threading.Thread(target=watch, args=(controller,))
        watching.start()
        ranks.run(add_up, 3, environment={"SQUARE_GATEWAY": node.serve_gateway()}, environments=environments)
        over.set()
        watching.join()
    assert seen == {tenant}


@pytest.mark.parametrize("weight", ["heavy", "0", "-1", "nan"])
def test_a_weight_must_be_a_positive_number(weight: str) -> None:
    with pytest.raises(ValueError, match=r"weight|WEIGHT"):
        Options.resolve(None, {"SQUARE_WEIGHT": weight})


def test_redundancy_is_a_whole_number() -> None:
    assert Options.resolve(None, {"SQUARE_REDUNDANCY": "1"}).redundancy == 1
    assert Options.resolve(Options(redundancy=2), {"SQUARE_REDUNDANCY": "1"}).redundancy == 2
    with pytest.raises(ValueError, match="must be a whole number, not 'one'"):
        Options.resolve(None, {"SQUARE_REDUNDANCY": "one"})
    with pytest.raises(ValueError, match="must be 0 or more"):
        Options.resolve(Options(redundancy=-1), {})


def test_other_options_are_refused() -> None:
    with pytest.raises(TypeError, match=r"square\.torch\.Options"):
        Options.resolve({"tenant": "alice"}, {})


def test_an_interface_is_a_name_or_an_address() -> None:
    assert hosts.interface_address("lo") == "127.0.0.1"
    assert hosts.interface_address("10.1.2.3") == "10.1.2.3"
    with pytest.raises(ValueError, match=r"no-such-one.*SQUARE_INTERFACE.*lo"):
        hosts.interface_address("no-such-one")


def card(host: str, node: str = "name", named: bool = False, known: Any = None, gateway: str = "") -> Card:
    return Card(host=host, node=node, is_named=named, controller="", gateway=gateway, known=known or {})


@pytest.mark.parametrize(
    ("cards", "nodes", "leaders"),
    [
        # One host: the first rank's node serves all.
        ([card("a"), card("a"), card("a")], ["name"] * 3, [0, 0, 0]),
        # Hosts that share a name get different ones.
        ([card("a"), card("b"), card("a")], ["name", "name-2", "name"], [0, 1, 0]),
        # Names that were given tell nodes of one host apart.
        ([card("a", "x", True), card("a", "y", True)], ["x", "y"], [0, 1]),
        # Who has a place keeps it, and takes in the others of its host.
        ([card("a"), card("a", known={"C": "old"})], ["old", "old"], [1, 1]),
        # Another controller's place is none.
        ([card("a", known={"D": "old"})], ["name"], [0]),
        # Behind a gateway only the gateway knows the name.
        ([card("a", gateway="g"), card("a")], ["", "name"], [0, 1]),
    ],
)
def test_ranks_of_a_host_share_a_node(cards: list[Card], nodes: list[str], leaders: list[int]) -> None:
    assert _assign(cards, "C", is_shared=False) == (nodes, leaders)


def add_up(rank: int, size: int) -> str:
    tensor = torch.full((1000,), float(rank))
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full((1000,), sum(range(size)) * 1.0))
    return str(dist.group.WORLD._calls.site.name)


def test_ranks_with_node_names_have_nodes_of_their_own() -> None:
    names = [{"SQUARE_NODE": "x"}, {"SQUARE_NODE": "y"}, {"SQUARE_NODE": "x"}]
    assert ranks.run(add_up, 3, environments=names) == ["x", "y", "x"]


def add_in_any_order(rank: int, size: int) -> list[str]:
    tensor = torch.tensor([1e8, 1.0, -1e8][rank]).repeat(3)
    dist.all_reduce(tensor)
    return [dist.group.WORLD._calls.algorithm, *map(str, tensor.tolist())]


def test_the_first_rank_chooses_the_algorithm() -> None:
    environments = [{"SQUARE_ALGORITHM": name} for name in ("ring", "planned", "")]
    # Of a ring: element r begins with rank r; 1e8 + 1 is 1e8 in float32.
    wanted = ["ring", "0.0", "0.0", "1.0"]
    assert ranks.run(add_in_any_order, 3, environments=environments) == [wanted] * 3


def test_an_algorithm_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r'must be "planned" or "ring", not \'tree\''):
        Options.resolve(None, {"SQUARE_ALGORITHM": "tree"})


def test_a_controller_by_environment(tmp_path: Path) -> None:
    from issued import Issued  # the ranks import this file, and have not got that one

    issued = Issued(tmp_path)
    with square.Controller(identity=issued("controller", "c")) as controller:
        environment = {"SQUARE_CONTROLLER": controller.address, "SQUARE_TENANT": "alice"}
        # Nodes are called as their certificates say.
        names = [{"SQUARE_IDENTITY": issued("node", f"site{rank // 2}")} for rank in range(4)]
        found = ranks.run(add_up, 4, environment=environment, environments=names)
        assert found == ["site0", "site0", "site1", "site1"]


def test_gateways_by_environment() -> None:
    with (
        square.Controller() as controller,
        square.Node("a", controller.address) as a,
        square.Node("b", controller.address) as b,
    ):
        gateways = [a.serve_gateway(), b.serve_gateway()]
        environments = [{"SQUARE_GATEWAY": gateways[rank % 2]} for rank in range(3)]
        assert ranks.run(add_up, 3, environments=environments) == ["a", "b", "a"]


def test_a_wrong_controller_is_named_on_every_rank() -> None:
    with pytest.raises(AssertionError, match=r"127\.0\.0\.1:9"):
        ranks.run(add_up, 2, environment={"SQUARE_CONTROLLER": "127.0.0.1:9"})


def come_with_a_wrong_option(rank: int, size: int, culprit: int, folder: str) -> str:
    if rank == culprit:
        os.environ["SQUARE_COMPRESSION"] = "zip"
    with pytest.raises(ValueError if rank == culprit else RuntimeError) as raised:
        dist.init_process_group(
            "square", store=dist.FileStore(f"{folder}/store", size), rank=rank, world_size=size
        )
    return str(raised.value)


@pytest.mark.parametrize("culprit", [0, 2])
def test_a_wrong_option_of_one_rank_ends_the_wait_of_all(culprit: int, tmp_path: Path) -> None:
    texts = ranks.run(come_with_a_wrong_option, 3, culprit, str(tmp_path), backend=None)
    assert all('"zip" names no compression' in text for text in texts)
    others = [text for rank, text in enumerate(texts) if rank != culprit]
    assert all(f"rank {culprit}: " in text for text in others)


def meet_on_more_nodes(rank: int, size: int) -> list[str]:
    """A group whose overlay is one node cannot take in a rank that wants a node of its own."""
    dist.barrier()
    os.environ["SQUARE_NODE"] = "x" if rank < 2 else "y"
    pair = dist.new_group([0, 1], backend="square")
    if rank < 2:
        dist.barrier(group=pair)
    everyone = dist.new_group(backend="square")
    tensor = torch.tensor([float(rank)])
    dist.all_reduce(tensor, group=everyone)
    assert tensor.item() == 3
    return [str(group._calls.site.name) for group in (pair, everyone) if hasattr(group, "_calls")]


def test_a_node_alone_is_left_for_an_overlay_of_more_nodes() -> None:
    found = ranks.run(meet_on_more_nodes, 3, backend="gloo", environment={"GLOO_SOCKET_IFNAME": "lo"})
    assert found == [["x", "x"], ["x", "x"], ["y"]]


def mix(rank: int, size: int) -> None:
    """Groups of square under a default group of Gloo, small ones before a large one."""
    pairs = [dist.new_group([0, 1], backend="square"), dist.new_group([2, 3], backend="square")]
    tensor = torch.tensor([float(rank)])
    dist.all_reduce(tensor, group=pairs[rank // 2])
    assert tensor.item() == (1 if rank < 2 else 5)
    everyone = dist.new_group(backend="square")
    dist.all_reduce(tensor, group=everyone)
    assert tensor.item() == 12
    inner = dist.new_group([1, 2], backend="square")
    if rank in (1, 2):
        dist.broadcast(tensor, 2, group=inner)
    dist.barrier(group=everyone)


def test_groups_of_square_beside_gloo() -> None:
    ranks.run(mix, 4, backend="gloo", environment={"GLOO_SOCKET_IFNAME": "lo"})


def use_device_names(rank: int, size: int) -> None:
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor[0] == size
    assert dist.get_backend_config() == "cpu:square"


def test_the_backend_may_be_named_for_a_device() -> None:
    ranks.run(use_device_names, 2, backend="cpu:square")
