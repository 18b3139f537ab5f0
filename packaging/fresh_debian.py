"""Installs a wheel on a Debian that has nothing but Python, and tries what the README promises there.

    python packaging/fresh_debian.py WHEEL

A root directory of its own, from this machine's own mirrors; pip finds packages as it does here. Then, in it:
`pip install WHEEL`, `square demo` within DEMO_SECONDS of that, and examples/torch_ddp.py in two processes.
Needs root, who may mount, and a Debian whose mirror answers; elsewhere it says so, and ends without an error.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDED = "python3,python3-venv,ca-certificates"
BUNDLE = "etc/ssl/certs/ca-certificates.crt"
DEMO_SECONDS = 60.0
STEP_SECONDS = 300.0
BASE_SECONDS = 600.0
TORCH = "torch==2.13.0"
# What a build would need.
FORBIDDEN = ("gcc", "g++", "cc", "cmake", "make", "ninja")


def mirror() -> tuple[str, str] | None:
    """This machine's own, and the release's name."""
    may_mount = "unshare --mount --pid --fork mount -t tmpfs tmpfs /mnt"
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        return None
    if subprocess.run(may_mount.split(), stderr=subprocess.DEVNULL).returncode != 0:
        return None
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)", "Identifier: Packages"],
        capture_output=True,
        text=True,
    )
    release = re.search(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.M)
    for line in told.stdout.splitlines():
        site, _, rest = line.partition(" ")
        if release and rest == f"{release[1]} main":
            return site, release[1]
    return None


def local_places() -> list[Path]:
    """Directories that pip looks for packages in here."""
    told = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True)
    words = re.findall(r"(?:file://)?(/[\w./+-]+)", told.stdout + " ".join(pip_variables().values()))
    return sorted({Path(word) for word in words if Path(word).is_dir()})


def pip_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("PIP_")}


class Fresh:
    """A root directory; what runs in it has a mount namespace, and sees no other process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("etc/resolv.conf", "etc/pip.conf", BUNDLE):
            if Path("/", name).exists():
                shutil.copy(Path("/", name), folder / name)
        # As an installer does.
        (folder / "etc" / "hosts").write_text(f"127.0.0.1 localhost {os.uname().nodename}\n")
        mounts = [f"mount -t proc proc {folder}/proc", f"mount -t tmpfs tmpfs {folder}/dev/shm"]
        for place in local_places():
            (folder / place.relative_to("/")).mkdir(parents=True, exist_ok=True)
            mounts.append(f"mount --bind -o ro {place} {folder}{place}")
        self._enter = f'{" && ".join(mounts)} && exec chroot {folder} "$@"'

    def run(self, *command: str) -> str:
        kept = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "LANG": "C.UTF-8"}
        done = subprocess.run(
            [
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "bash",
                "-c",
                self._enter,
                "bash",
                *command,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=kept | pip_variables(),
            timeout=STEP_SECONDS,
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed on a fresh Debian:\n{done.stdout[-2000:]}")
        return done.stdout


def try_wheel(fresh: Fresh, wheel: Path) -> None:
    shutil.copy(wheel, fresh.folder / "root")
    shutil.copy(ROOT / "examples" / "torch_ddp.py", fresh.folder / "root")
    tools = [name for name in FORBIDDEN if any(fresh.folder.glob(f"usr/bin/{name}"))]
    if tools:
        raise SystemExit(f"a fresh Debian has {', '.join(tools)}: nothing is shown by it")
    fresh.run("python3", "-m", "venv", "/root/venv")
    begun = time.monotonic()
    fresh.run("/root/venv/bin/pip", "install", "--quiet", f"/root/{wheel.name}")
    installed = time.monotonic()
    said = fresh.run("/root/venv/bin/square", "demo")
    done = time.monotonic()
    verified = re.search(r"all \d+ bytes at \d+ destinations verified", said)
    if not verified:
        raise SystemExit(f"the demo verified nothing:\n{said}")
    print(f"installed in {installed - begun:.1f} s; {done - installed:.1f} s later: {verified[0]}")
    if done - installed > DEMO_SECONDS:
        raise SystemExit(f"that is more than {DEMO_SECONDS} s")
    fresh.run("/root/venv/bin/pip", "install", "--quiet", TORCH)
    said = fresh.run("/root/venv/bin/torchrun", "--nproc-per-node", "2", "/root/torch_ddp.py")
    print("torch, two processes:", [line for line in said.splitlines() if line.startswith("step")][-1])


def main() -> int:
    wheel = Path(sys.argv[1])
    source = mirror()
    if source is None:
        print(
            "square: no fresh Debian can be made here: that needs root, who may mount, and debootstrap",
            file=sys.stderr,
        )
        return 0
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fresh-debian-", dir=ROOT / "build") as folder:
        site, release = source
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={INCLUDED}", release, folder, site],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BASE_SECONDS,
        )
        if made.returncode != 0:  # the mirror's fault, or the machine's, and not the wheel's
            print(
                f"square: the wheel was not tried: debootstrap failed:\n{made.stdout[-2000:]}",
                file=sys.stderr,
            )
            return 0
        try_wheel(Fresh(Path(folder)), wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
