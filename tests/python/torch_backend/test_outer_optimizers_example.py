"""The example that compares outer optimizers, small: what it reports, and that it does so again."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ranks  # noqa: F401 - skips where torch is missing
from conftest import REPOSITORY

EXAMPLE = REPOSITORY / "examples" / "outer_optimizers"
TEXT = REPOSITORY / "examples" / "gpt_sites" / "psalms.txt"
SECONDS = 240
MODES = ["data-parallel", "diloco", "diloco-int8", "streaming", "asynchronous", "di-ps", "di-ps-paced"]
CLOSE = 1e-9


def example(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", str(EXAMPLE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)


def figures(*arguments: str) -> dict[str, Any]:
    done = example("--quick", "--text", str(TEXT), "--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outer") / "report.html"


@pytest.fixture(scope="module")
def found(report: Path) -> dict[str, Any]:
    return figures("--out", str(report))


def test_every_mode_learns_from_where_all_begin(found: dict[str, Any]) -> None:
    assert [row["mode"] for row in found["losses"]] == MODES
    for seed in found["seeds"]:
        runs = [run for run in found["runs"] if run["seed"] == seed]
        assert [run["mode"] for run in runs] == MODES
        assert len({run["curve"][0][3] for run in runs}) == 1
        for run in runs:
            assert run["tokens"] == run["curve"][-1][0]
            # Rounds of Di-PS differ in size; the last one is whole.
            least = 0.9 if run["mode"].startswith("di-ps") else 1
            assert least <= run["tokens"] / found["learning"]["tokens"] <= 1
            assert run["curve"][-1][3] < run["curve"][0][3], f"{run['mode']} learned nothing"
            for column in (0, 1, 2):
                assert [p[column] for p in run["curve"]] == sorted(p[column] for p in run["curve"])


def test_bytes_and_time_are_what_the_modes_say(found: dict[str, Any]) -> None:
    """By hand: four clusters, links of 100, 100, 100 and 10 Mbit/s, 0.1 s a step of the fastest."""
    size = 4 * found["parameters"]
    steps = found["learning"]["tokens"] // (4 * found["learning"]["length"] * found["learning"]["pieces"])
    rounds = steps / 10
    run = {run["mode"]: run for run in found["runs"] if run["seed"] == found["seeds"][0]}
    assert run["data-parallel"]["bytes_each"] == pytest.approx([steps * 3 * size] * 4)
    assert run["diloco"]["bytes_each"] == pytest.approx([rounds * 3 * size] * 4)
    assert run["streaming"]["bytes_each"] == pytest.approx([(rounds + 1) * 3 * size] * 4)
    assert sum(run["asynchronous"]["bytes_each"]) == pytest.approx(4 * rounds * 2 * size)
    assert run["diloco-int8"]["bytes_each"][0] < 0.27 * run["diloco"]["bytes_each"][0]
    ring = 1.5 * size * 8 / 10e6
    assert run["data-parallel"]["curve"][-1][1] == pytest.approx(steps * (0.15 + ring))
    assert run["diloco"]["curve"][-1][1] == pytest.approx(rounds * (1.5 + ring))
    assert found["ceilings"]["10"]["without_communication"] == pytest.approx(1.2302, abs=1e-4)
    rates = {row["mode"]: row["over_reference"] for row in found["throughput"]}
    assert rates["diloco"] == 1
    assert 1 < rates["di-ps"] <= rates["asynchronous"]
    assert 1 < rates["di-ps-paced"] <= rates["asynchronous"]
    assert rates["asynchronous"] == pytest.approx(found["ceilings"]["10"]["over_these_links"], rel=0.02)
    assert found["arithmetic"]["horizon"] == 500
    assert "nothing was trained" in found["arithmetic"]["note"]


def test_few_bytes_come_to_the_same_loss(found: dict[str, Any]) -> None:
    rows = {row["mode"]: row for row in found["bytes_until_the_same_loss"]}
    assert set(rows) == set(MODES[1:])
    for row in rows.values():
        assert row["least"] <= row["mean"] <= row["largest"]
    assert rows["diloco-int8"]["mean"] > rows["diloco"]["mean"] > 1


def test_the_report_needs_nothing_else(found: dict[str, Any], report: Path) -> None:
    page = report.read_text(encoding="utf-8")
    assert "http" not in page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"\b(src|href)=|@import|url\(|<script", page)
    assert page.count("<svg") == page.count("</svg>") == 2
    assert page.count("<polyline") == 2 * len(found["runs"])
    assert "nothing was trained" in page
    for run in found["runs"]:
        assert run["digest"] in page


def test_a_seed_gives_the_same_bits(found: dict[str, Any]) -> None:
    """Whatever runs beside it."""
    seed = found["seeds"][-1]
    chosen = ["diloco-int8", "streaming", "di-ps"]
    again = figures("--seeds", str(seed), "--modes", *chosen, "--jobs", "1")
    before = [run for run in found["runs"] if run["seed"] == seed and run["mode"] in chosen]
    assert again["runs"] == before


def test_clusters_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """All begin with one state; what one learns must not reach another's inner optimizer."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.delitem(sys.modules, "model", raising=False)
    model, text = importlib.import_module("model"), importlib.import_module("text")
    learning = model.Learning(width=16, layers=1, warm_steps=2)
    corpus = text.read(TEXT, least_bytes=1)
    start = model.warm_start(learning, corpus, 1, 4)
    one, other = (model.Cluster(learning, corpus, 1, [stream]) for stream in range(2))
    for cluster in (one, other):
        cluster.restore(start)
    moments = [
        value.clone() for value in other.inner.state[other.inner.param_groups[0]["params"][0]].values()
    ]
    before = other.parameters()
    one.train(3, 0, 4)
    assert (other.parameters() == before).all()
    after = other.inner.state[other.inner.param_groups[0]["params"][0]].values()
    assert all(bool((value == old).all()) for value, old in zip(after, moments, strict=True))


def test_a_text_that_is_missing_or_short_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = example("--text", str(tmp_path / "none.txt"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "none.txt: " in done.stderr
    done = example("--text", str(TEXT))
    assert done.returncode == 1
    assert "at least 1000000" in done.stderr
    monkeypatch.syspath_prepend(str(EXAMPLE))
    text = importlib.import_module("text")
    monkeypatch.setattr(text, "PACKAGES", {name: tmp_path / name for name in text.PACKAGES})
    with pytest.raises(text.TextError, match="install the Debian package jargon-text or dict-jargon"):
        text.read(None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--horizon", "3"], "--horizon must be at least 8"),
        (["--horizon", "5000"], "go twice into --tokens"),
        (["--width", "30"], "a multiple of 4"),
        (["--links", "1", "1", "1", "0"], "above 0"),
    ],
)
def test_mistakes_are_named(arguments: list[str], message: str) -> None:
    done = example("--text", str(TEXT), *arguments)
    assert done.returncode == 1
    assert message in done.stderr
