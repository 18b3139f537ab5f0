"""What the Python tests share: where things are, seeds, and tests for long runs only."""

import os
import random
import signal
from pathlib import Path

import pytest
from square import flight_record
from square.errors import SquareError
from square.run import namespaces

REPOSITORY = Path(__file__).resolve().parents[2]


# These look for networks of the kernel that others left: one after another.
NETWORKS = [
    "test_doctor_netns",
    "test_netns",
    "test_netns_capacity",
    "test_netns_links",
    "test_netns_relay",
    "test_netns_unmeasured",
    "test_netns_wiring",
]


def keep_together(items: list[pytest.Item]) -> None:
    """Where several processes test, the tests of a file run in one of them, in their order."""
    for item in items:
        group = "networks" if item.path.stem in NETWORKS else item.path.stem
        item.add_marker(pytest.mark.xdist_group(group))


def pytest_configure() -> None:
    # Groups that fail on purpose leave nothing behind.
    os.environ.setdefault(flight_record.VARIABLE, flight_record.OFF)
    # A shell has what it starts in the background ignore Ctrl-C, and so have all that that starts.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.pluginmanager.hasplugin("xdist"):
        keep_together(items)
    if os.environ.get("SQUARE_LONG") == "1":
        return
    skip = pytest.mark.skip(reason="long; run `make test-long`")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the working tree."""
    return REPOSITORY


@pytest.fixture(scope="session")
def build_dir() -> Path:
    """The C++ build that is under test: SQUARE_BUILD_DIR, else build/dev."""
    directory = Path(os.environ.get("SQUARE_BUILD_DIR", REPOSITORY / "build" / "dev")).resolve()
    if not (directory / "CMakeCache.txt").is_file():
        pytest.fail(f"{directory} is not a build: run `make build`, or set SQUARE_BUILD_DIR")
    return directory


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The measured networks, which are not in the repository: SQUARE_DATA, else ../shared/data."""
    directory = Path(os.environ.get("SQUARE_DATA", REPOSITORY.parent / "shared" / "data"))
    if not directory.is_dir():
        pytest.skip(f"{directory} is not there: set SQUARE_DATA to the directory with topology-zoo/")
    return directory


@pytest.fixture
def seed() -> int:
    """A seed, printed so that a failure can be run again with SQUARE_SEED."""
    value = int(os.environ.get("SQUARE_SEED", random.SystemRandom().randrange(2**32)))
    print(f"SQUARE_SEED={value}")
    return value


@pytest.fixture
def tun_relay(build_dir: Path) -> Path:
    """The program that is a link with delay and loss between two network namespaces."""
    try:
        namespaces.check_possible()
        namespaces.Namespace().close()
    except SquareError as error:
        pytest.skip(str(error))
    if not Path("/dev/net/tun").exists():
        pytest.skip("this kernel has no /dev/net/tun")
    program = build_dir / "tests" / "netns" / "tun_relay"
    assert program.is_file(), f"{program} is not built: run `make build`"
    return program
