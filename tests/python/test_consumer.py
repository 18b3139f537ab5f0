"""An installed Square is enough for another project: by find_package and by pkg-config."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    result = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert result.returncode == 0, f"{command} gave {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def prefix(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh install prefix, moved after installation: nothing may remember its first place."""
    first = tmp_path_factory.mktemp("install") / "first"
    run("cmake", "--install", build_dir, "--prefix", first)
    return first.rename(first.with_name("moved"))


def library(prefix: Path) -> Path:
    found = sorted(prefix.glob("lib*/**/libsquare.so"))
    assert len(found) == 1, f"expected one libsquare.so under {prefix}, found {found}"
    return found[0]


def test_find_package(prefix: Path, repository: Path, tmp_path: Path) -> None:
    source = repository / "tests" / "consumer"
    run("cmake", "-S", source, "-B", tmp_path, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    assert "30.000 Mbit/s" in run(tmp_path / "consumer")


FETCHING = """\
cmake_minimum_required(VERSION 3.25)
project(fetching LANGUAGES CXX)
include(FetchContent)
FetchContent_Declare(square SOURCE_DIR "{repository}")
FetchContent_MakeAvailable(square)
add_executable(consumer "{repository}/tests/consumer/main.cc")
target_link_libraries(consumer PRIVATE square::square)
"""


def test_the_sources_can_be_part_of_a_project(repository: Path, tmp_path: Path) -> None:
    """Configured only: what is compiled is the same as here. Square's tests are not the project's."""
    (tmp_path / "CMakeLists.txt").write_text(FETCHING.format(repository=repository), encoding="utf-8")
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja")
    made = run("ninja", "-C", tmp_path / "build", "-t", "inputs", "consumer")
    assert "libsquare.so" in made
    assert "tests/consumer/main.cc" in made
    targets = run("ninja", "-C", tmp_path / "build", "-t", "targets", "all")
    assert "test_node" not in targets


def test_pkg_config(prefix: Path, repository: Path, tmp_path: Path) -> None:
    env = {"PKG_CONFIG_PATH": str(library(prefix).parent / "pkgconfig")}
    flags = shlex.split(run("pkg-config", "--cflags", "--libs", "square", env=env))
    program = tmp_path / "consumer"
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    source = repository / "tests" / "consumer" / "main.cc"
    run(*compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", source, "-o", program, *flags)
    output = run(program, env={"LD_LIBRARY_PATH": str(library(prefix).parent)})
    assert "30.000 Mbit/s" in output


def test_only_square_is_exported(prefix: Path) -> None:
    symbols = run("nm", "-D", "--defined-only", "--demangle", library(prefix)).splitlines()
    names = [line.split(maxsplit=2)[2] for line in symbols if len(line.split(maxsplit=2)) == 3]
    assert any(name.startswith("square::make_plan(") for name in names)
    foreign = [name for name in names if "square::" not in name]
    assert not foreign, f"libsquare shows names that are not its own: {foreign[:10]}"


def test_headers_and_licence_are_installed(prefix: Path, repository: Path) -> None:
    ours = {path.name for path in (repository / "include" / "square").glob("*.h")}
    installed = {path.name for path in (prefix / "include" / "square").glob("*.h")}
    assert installed == ours
    assert list(prefix.glob("share/doc/**/LICENSE"))
