"""`square ca`, as an operator types it."""

import json
import time
from pathlib import Path

import square as package
from commands import assert_clear_error, square


def test_an_authority_its_identities_and_grants(tmp_path: Path) -> None:
    authority, fra, control = (tmp_path / name for name in ("authority", "fra", "controller"))
    made = square("ca", "init", authority, "--domain", "square.example", "--json")
    assert json.loads(made.stdout) == {"folder": str(authority), "domain": "square.example"}
    issued = square("ca", "issue", authority, "--node", "fra", "--out", fra, "--json")
    told = json.loads(issued.stdout)
    assert told["name"] == "spiffe://square.example/node/fra"
    assert square("ca", "show", fra).stdout.split() == [told["name"], told["fingerprint"]]
    again = square("ca", "issue", authority, "--node", "fra", "--out", fra, "--life", "12h")
    assert "spiffe://square.example/node/fra" in again.stdout
    assert json.loads(square("ca", "show", fra, "--json").stdout)["fingerprint"] != told["fingerprint"]
    granted = square(
        "ca", "grant", authority, "--tenant", "alice", "--out", fra, "--on", "fra", "--weight", "2"
    )
    assert granted.returncode == 0, granted.stderr
    assert (fra / "alice.grant").exists()
    assert square("ca", "grant", authority, "--out", fra, "--tenant", "*").returncode == 0
    assert (fra / "+any.grant").exists()
    square("ca", "issue", authority, "--controller", "main", "--out", control)
    revoked = square("ca", "revoke", control, "--node", "fra")
    assert revoked.returncode == 0, revoked.stderr
    assert (control / "revoked").read_text(encoding="ascii").startswith("node/fra ")
    with (
        package.Controller(identity=control) as controller,
        package.Node("fra", controller.address, identity=_issued_later(authority, fra)) as node,
    ):
        package.Communicator(node, "g", "alice", ["fra"], 0)


def _issued_later(authority: Path, folder: Path) -> Path:
    """After the revocation: of another second."""
    time.sleep(1.1)
    assert square("ca", "issue", authority, "--node", "fra", "--out", folder).returncode == 0
    return folder


def test_mistakes(tmp_path: Path) -> None:
    authority = tmp_path / "authority"
    assert_clear_error(square("ca", "init", authority, "--domain", "No Domain"), "cannot be a domain")
    assert square("ca", "init", authority, "--domain", "d").returncode == 0
    assert_clear_error(square("ca", "init", authority, "--domain", "d"), "is there already")
    issue = ("ca", "issue", authority, "--out", tmp_path / "x")
    assert_clear_error(square(*issue, "--node", "two\nwords"), "cannot be a certificate's name")
    assert_clear_error(square(*issue, "--node", "a", "--life", "9999d"), "cannot live")
    wrong = square(*issue, "--node", "a", "--life", "soon")
    assert wrong.returncode == 2
    assert "12h" in wrong.stderr
    assert square(*issue).returncode == 2
    assert_clear_error(
        square("ca", "issue", tmp_path, "--node", "a", "--out", tmp_path / "x"), "authority.key"
    )
    assert_clear_error(square("ca", "show", tmp_path), "identity.pem")
    assert_clear_error(square("ca", "revoke", tmp_path, "--node", "a"), "identity.pem")
    grant = ("ca", "grant", authority, "--tenant", "a", "--out", tmp_path / "x")
    assert_clear_error(square(*grant, "--operations", "dance"), "dance")
