"""The manifests are what Kubernetes takes, and their commands are what square takes."""

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from square.cli.main import build_parser

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kubernetes"
RELEASES = ["1.28", "1.31", "1.34"]


def documents() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{file.name} {document['kind']}", document)
        for file in sorted(FOLDER.glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("name", "document"), documents(), ids=[name for name, _ in documents()])
def test_manifests_follow_the_schema(name: str, document: dict[str, Any], release: str) -> None:
    kubernetes_validate.validate(document, release, strict=True)


def containers() -> list[dict[str, Any]]:
    pods = [
        document["spec"]["template"]["spec"] for _, document in documents() if "template" in document["spec"]
    ]
    return [container for pod in pods for container in (*pod["containers"], *pod.get("initContainers", []))]


def test_the_commands_of_square_are_its_own() -> None:
    commands = [one["command"] for one in containers() if one["command"][0] == "square"]
    assert [command[1] for command in commands] == ["controller", "node"]
    for command in commands:
        build_parser().parse_args(command[1:])


def test_what_is_mounted_and_named_is_there() -> None:
    for _, document in documents():
        if "template" not in document["spec"]:
            continue
        pod = document["spec"]["template"]["spec"]
        claims = [claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", [])]
        volumes = {volume["name"] for volume in pod["volumes"]} | set(claims)
        for container in (*pod["containers"], *pod.get("initContainers", [])):
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            known = {variable["name"] for variable in container.get("env", [])} | {"JOB_COMPLETION_INDEX"}
            used = re.findall(r"\$\(?([A-Z_]+)\)?", " ".join(container["command"]))
            assert set(used) <= known
