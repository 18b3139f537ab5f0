"""`square node`: a node in a process of its own."""

import argparse
import pwd
import sys

from square._core import Node, tune_process_memory
from square.cli import arguments, documents, identities, served_metrics, serving

DEFAULT_WINDOW_MIB = 256
DEFAULT_GATEWAY_MIB = 4096
GATEWAY_SHARES = 4


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "node",
        "a node in a process of its own, for instance at a site that only relays",
        "Joins a controller and relays what the plan says, until SIGINT or SIGTERM.",
        "  square node --name Frankfurt --controller 127.0.0.1:7000\n"
        "  square node --name Frankfurt --controller 127.0.0.1:7000 --gateway /run/square/a.sock",
    )
    parser.add_argument("--name", required=True, metavar="N", help="which node of the overlay this is")
    parser.add_argument(
        "--controller",
        required=True,
        metavar="ADDR",
        help="what `square controller` printed; several with commas",
    )
    parser.add_argument(
        "--bind", default="127.0.0.1:0", metavar="ADDR", help="where to listen (default 127.0.0.1:0)"
    )
    parser.add_argument(
        "--advertise", default="", metavar="ADDR", help="what others dial, where it is another address"
    )
    identities.add_options(parser, listens=True)
    parser.add_argument(
        "--window-mib",
        type=arguments.positive_int,
        default=DEFAULT_WINDOW_MIB,
        metavar="M",
        help=f"memory for blocks of others (default {DEFAULT_WINDOW_MIB})",
    )
    served_metrics.add_options(parser)
    parser.add_argument(
        "--gateway",
        nargs="?",
        const="",
        metavar="PATH",
        help="serve other processes of this host (square.attach) at this Unix socket, or at one of its own",
    )
    parser.add_argument(
        "--gateway-user",
        action="append",
        type=gateway_user,
        default=[],
        metavar="USER=TENANT",
        dest="gateway_users",
        help='serve processes of another user, too, as this tenant ("*": any); may be repeated',
    )
    parser.add_argument(
        "--gateway-mib",
        type=arguments.positive_int,
        default=DEFAULT_GATEWAY_MIB,
        metavar="M",
        help="memory for operations of those processes, a quarter of it for each tenant "
        f"(default {DEFAULT_GATEWAY_MIB})",
    )
    parser.add_argument(
        "--unsealed",
        action="store_true",
        help="do not seal blocks from source to destination: whoever relays them can read and change them; "
        "on all nodes alike",
    )
    parser.add_argument("--json", action="store_true", help="print name and address as a line of JSON")
    parser.add_argument("--verbose", action="store_true", help="log more")
    parser.set_defaults(execute=execute)


def serve_gateway(node: Node, options: argparse.Namespace) -> dict[str, str]:
    """Its address, by the word for it, if one is asked for."""
    if options.gateway is None:
        return {}
    staging = options.gateway_mib << 20
    tenant_staging = staging // GATEWAY_SHARES
    path = node.serve_gateway(
        options.gateway,
        users=options.gateway_users,
        staging_bytes=staging,
        tenant_staging_bytes=tenant_staging,
    )
    return {"gateway": path}


def gateway_user(text: str) -> tuple[int, str]:
    """A user's number or name, and a tenant."""
    name, _, tenant = text.partition("=")
    if not tenant:
        raise argparse.ArgumentTypeError(f"must be USER=TENANT, not {text!r}")
    if name.isdecimal():
        return int(name), tenant
    try:
        return pwd.getpwnam(name).pw_uid, tenant
    except KeyError:
        raise argparse.ArgumentTypeError(f"there is no user {name!r} here") from None


def execute(options: argparse.Namespace) -> int:
    identity = identities.identity_of(options)
    served_metrics.check(options)  # before anything joins
    serving.log_to_stderr(verbose=options.verbose)
    tune_process_memory()
    with serving.mortal():
        node = Node(
            options.name,
            options.controller,
            bind_address=options.bind,
            advertised_address=options.advertise,
            identity=identity,
            insecure=options.insecure,
            sealed=not options.unsealed,
            window_bytes=options.window_mib << 20,
        )
    with serving.Service() as service, node, served_metrics.served(node, options) as served:
        gateway = serve_gateway(node, options)
        if options.json:
            documents.print_line({"name": node.name, "address": node.address, **served, **gateway})
        else:
            served_metrics.announce(served)
            for path in gateway.values():
                print(f"square: serves processes at {path}", file=sys.stderr, flush=True)
            print(f"{node.name} {node.address}", flush=True)
        service.wait()
        sent = node.statistics()["bytes_sent"]
        print(f"square: node {node.name} stops; it sent {sent} bytes", file=sys.stderr, flush=True)
    return 0
