"""Sweeps on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TINY, CtrlC

import esper
from esper._progress import Listener


def without_time(document: Any) -> Any:
    """Results without how long it took, which is never the same."""
    if isinstance(document, dict):
        return {key: without_time(value) for key, value in document.items() if key != "train_seconds"}
    return [without_time(each) for each in document] if isinstance(document, list) else document


def policies(path: Path) -> dict[str, bytes]:
    return {str(at.relative_to(path)): at.read_bytes() for at in sorted(path.glob("**/policy.safetensors"))}


def test_one_comparison_is_that_of_run(gambling: esper.Dataset, tmp_path: Path) -> None:
    """The same folder, the same bytes: a sweep over nothing is `esper.run`."""
    asked: dict[str, Any] = {"seeds": 2, "episodes": 30, "progress": False, "settings": TINY}
    compared = esper.run(gambling, ["rvs", "bc"], out=tmp_path / "run", **asked)
    swept = esper.sweep(gambling, ["rvs", "bc"], out=tmp_path / "sweep", ray=False, **asked)
    assert without_time(dict(swept.only)) == without_time(dict(compared))
    assert policies(tmp_path / "sweep") == policies(tmp_path / "run") and len(policies(tmp_path / "run")) == 4
    names = {at.name for at in (tmp_path / "run").iterdir()}
    assert {at.name for at in (tmp_path / "sweep").iterdir()} == names | {"sweep.json"}
    assert json.loads((tmp_path / "sweep" / "results.json").read_text()) == dict(swept.only)
    again = esper.run(gambling, ["rvs", "bc"], out=tmp_path / "sweep", resume=True, **asked)
    assert dict(again) == dict(swept.only), "one goes on with the other's"


def test_data_sets_and_settings(gambling: esper.Dataset, tmp_path: Path) -> None:
    swept = esper.sweep(
        {"few": gambling.first_steps(1_000), "own": "gambling"},
        "rvs",
        seeds=1,
        settings={"short": {"mlp.steps": 60}, "long": {"mlp.steps": 120}},
        out=tmp_path / "sweep",
        steps=None,
        offline=True,
        progress=False,
        mlp__hidden=32,
    )
    assert list(swept) == [("few", "short"), ("few", "long"), ("own", "short"), ("own", "long")]
    assert swept["few", "long"]["dataset"]["steps"] == 1_000 and swept["own", "short"]["task"] == "gambling"
    assert (tmp_path / "sweep" / "own" / "long" / "report.html").exists()
    assert "mlp.steps=60" in (tmp_path / "sweep" / "few" / "short" / "comparison.json").read_text()
    rows = swept.rows()
    assert [row["folder"] for row in rows] == ["few/short", "few/long", "own/short", "own/long"]
    assert json.loads((tmp_path / "sweep" / "sweep.json").read_text()) == {"rows": rows, "failed": []}
    assert "few" in swept._repr_html_() and "4 runs in 4 comparisons" in repr(swept)
    with pytest.raises(KeyError, match="2 comparisons"):
        swept["few"]
    with pytest.raises(KeyError, match="few/short"):
        swept["nothing"]
    with pytest.raises(esper.SettingsError, match="4 comparisons"):
        _ = swept.only


def test_a_grid(gambling: esper.Dataset) -> None:
    swept = esper.sweep(
        gambling, ["rvs"], 1, grid={"mlp.steps": [50, 60], "mlp.learning_rate": [1e-3, 1e-4]}, offline=True, progress=False, mlp__hidden=16
    )
    names = [settings for _, settings in swept]
    assert names == [f"mlp.steps-{steps}_mlp.learning_rate-{rate}" for steps in (50, 60) for rate in ("0.001", "0.0001")]
    assert swept[names[0]].path.exists()


class Heard(Listener):
    def __init__(self) -> None:
        self.names: list[str] = []
        self.done: list[int] = []
        self.errors: dict[int, str] = {}

    def planned(self, names: list[str]) -> None:
        self.names = names

    def finished(self, run: int) -> None:
        self.done.append(run)

    def failed(self, run: int, error: str) -> None:
        self.errors[run] = error


def broken(data: esper.Dataset) -> np.ndarray:
    raise LookupError("no labels today")


def test_a_run_that_fails_takes_no_other_with_it(gambling: esper.Dataset, tmp_path: Path) -> None:
    heard = Heard()
    asked: dict[str, Any] = {"out": tmp_path / "sweep", "offline": True, "ray": False, "settings": TINY}
    with pytest.warns(RuntimeWarning, match="2 runs failed; data broken seed 0: .*no labels today"):
        swept = esper.sweep(gambling, ["broken", "rvs"], 2, relabellers={"broken": broken}, progress=heard, **asked)
    assert [(run["method"], run["seed"]) for run in swept.failed] == [("broken", 0), ("broken", 1)]
    assert [entry["method"] for entry in swept.only["methods"]] == ["rvs"]
    assert len(swept.only.method("rvs")["runs"]) == 2
    assert [run["error"] for run in swept.only["failed"]] == [run["error"] for run in swept.failed]
    assert "no labels today" in swept.only.report().html
    assert heard.names == ["broken seed 0", "broken seed 1", "rvs seed 0", "rvs seed 1"]
    assert sorted(heard.done) == [2, 3] and set(heard.errors) == {0, 1}
    # Mended, it is done again, and nothing else is.
    kept = (tmp_path / "sweep" / "rvs-mlp-0" / "training.json").stat().st_mtime_ns
    mended = {"broken": esper.Dataset.returns_to_go}
    again = esper.sweep(gambling, ["broken", "rvs"], 2, relabellers=mended, resume=True, progress=False, **asked)
    assert not again.failed and "failed" not in again.only
    assert (tmp_path / "sweep" / "rvs-mlp-0" / "training.json").stat().st_mtime_ns == kept
    with pytest.raises(esper.RunError, match="every run failed, the first of them data broken seed 0"):
        esper.sweep(gambling, ["broken"], 1, relabellers={"broken": broken}, offline=True, ray=False, progress=False)


def test_what_makes_no_sense_is_refused(gambling: esper.Dataset, tmp_path: Path) -> None:
    for arguments, words in [
        ({"methods": ["nothing"]}, "no method `nothing`"),
        ({"methods": ["rvs", "esper", "rvs"]}, "method `rvs` is there twice"),
        ({"methods": []}, "at least one method"),
        ({"data": []}, "no data"),
        ({"data": {}}, "no data"),
        ({"data": ["gambling", "gambling"]}, "`gambling` is there twice"),
        ({"data": [gambling, "gambling"]}, "has no name"),
        ({"data": {"../out": gambling}}, "nothing can be called"),
        ({"data": 3}, "not int"),
        ({"data": "chess"}, "no task `chess`"),
        ({"seeds": 0}, "at least one seed"),
        ({"settings": {"a": {"mlp.steps": 3}, "mlp.steps": 3}}, "either for all runs"),
        ({"settings": {"A b": {"mlp.steps": 3}}}, "nothing can be called"),
        ({"settings": {"mlp.stepps": 3}}, "stepps"),
        ({"grid": {"mlp.steps": 3}}, "a list of values"),
        ({"grid": {"mlp.steps": [3, 3]}}, "is there twice"),
        ({"cpus": 0}, "at least one core"),
        ({"resume": True, "out": None}, "out="),
    ]:
        asked = {"data": gambling, "methods": ["rvs"], "out": tmp_path / "sweep", "progress": False, "ray": False, **arguments}
        with pytest.raises(esper.SettingsError, match=words):
            esper.sweep(**asked)
        assert not (tmp_path / "sweep").exists(), arguments
    with pytest.raises(esper.MissingFileError):
        esper.sweep(tmp_path / "nothing.parquet", ray=False, progress=False)
    esper.sweep(gambling, ["rvs"], 1, out=tmp_path / "sweep", offline=True, ray=False, progress=False, settings=TINY)
    with pytest.raises(esper.RunError, match="already"):
        esper.sweep(gambling, ["rvs"], 1, out=tmp_path / "sweep", offline=True, ray=False, progress=False, settings=TINY)


def test_ctrl_c_stops_a_sweep_and_it_goes_on(gambling: esper.Dataset, ctrl_c: CtrlC, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"seeds": 2, "offline": True, "ray": False, "mlp__steps": 5_000}
    whole = esper.sweep({"one": gambling}, ["rvs"], out=tmp_path / "whole", progress=False, **asked)
    with pytest.raises(KeyboardInterrupt):
        esper.sweep({"one": gambling}, ["rvs"], out=tmp_path / "sweep", progress=ctrl_c, **asked)
    assert not policies(tmp_path / "sweep")
    again = esper.sweep({"one": gambling}, ["rvs"], out=tmp_path / "sweep", resume=True, progress=False, **asked)
    assert policies(again.path) == policies(whole.path)
    assert without_time(dict(again.only)) == without_time(dict(whole.only))
