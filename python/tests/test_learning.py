"""Runs, comparisons, and relabellers from Python."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY, CtrlC

import esper
from esper._progress import Listener


def test_a_run_says_what_is_known(trained: esper.Run, gambling: esper.Dataset) -> None:
    assert trained.method == "esper" and trained.seed == 3 and trained.condition == "return"
    assert trained.labels is not None and trained.labels.shape == (gambling.steps,)
    assert trained.labels.dtype == np.float32 and np.isfinite(trained.labels).all()
    assert trained.clusters is not None and trained.clusters.shape[0] == gambling.steps
    groups = trained.clusters.sum(axis=1)
    np.testing.assert_allclose(groups, np.round(groups), atol=0.02)
    assert trained.leakage is not None
    assert trained.findings["calibration"]["error"] >= 0
    promises = [entry["promise"] for entry in trained.promises]
    assert promises == sorted(promises)
    assert trained.metrics and "cluster" in trained.config
    assert isinstance(trained.warnings, list)


def test_labels_are_those_of_the_file(trained: esper.Run) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    kept = parquet.read_table(trained.path / "labels.parquet")
    np.testing.assert_array_equal(kept["label"].to_numpy(), trained.labels)


def test_a_run_is_opened_again(trained: esper.Run, gambling: esper.Dataset, tmp_path: Path) -> None:
    bare = esper.open_run(trained.path)
    assert bare.promises == trained.promises
    with pytest.raises(esper.RunError, match="labels go with data"):
        _ = bare.labels
    again = esper.open_run(trained.path, gambling)
    np.testing.assert_array_equal(again.labels, trained.labels)
    saved = trained.save(tmp_path / "copy")
    assert saved.path == tmp_path / "copy" and saved.policy.act(0) in (0, 1, 2)
    with pytest.raises(esper.RunError):
        trained.save(tmp_path / "copy")
    with pytest.raises(esper.RunError, match="no folder"):
        esper.open_run(tmp_path / "nothing")


def test_a_report_is_a_page(trained: esper.Run, tmp_path: Path) -> None:
    report = trained.report(tmp_path / "report.html")
    assert report.html.lstrip().lower().startswith("<!doctype html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report.html
    assert trained._repr_html_().startswith("<iframe srcdoc=")


def test_the_same_seed_gives_the_same_bytes(gambling: esper.Dataset, tmp_path: Path) -> None:
    runs = [esper.train(gambling, "rvs", seed=1, out=tmp_path / name, progress=False, settings=TINY) for name in "ab"]
    first, second = ((run.path / "policy.safetensors").read_bytes() for run in runs)
    assert first == second


def test_a_temporary_run_goes_with_its_object(gambling: esper.Dataset) -> None:
    run = esper.train(gambling, "rvs", progress=False, mlp__steps=50)
    path = run.path
    assert path.exists()
    del run
    assert not path.exists()


def test_settings_are_checked(gambling: esper.Dataset, tmp_path: Path) -> None:
    for arguments, words in [
        ({"method": "nothing"}, "no method `nothing`"),
        ({"policy": "tree"}, "no policy `tree`"),
        ({"preset": "slow"}, "no preset `slow`"),
        ({"device": "abacus"}, "no device `abacus`"),
        ({"mlp__stepps": 3}, "stepps"),
        ({"settings": {"mlp.steps": "many"}}, "many"),
        ({"resume": True}, "out="),
    ]:
        with pytest.raises(esper.SettingsError, match=words):
            esper.train(gambling, progress=False, **arguments)
    esper.train(gambling, "rvs", out=tmp_path / "run", progress=False, mlp__steps=50)
    with pytest.raises(esper.RunError, match="already"):
        esper.train(gambling, "rvs", out=tmp_path / "run", progress=False, mlp__steps=50)


class Heard(Listener):
    def __init__(self) -> None:
        self.phases: list[str] = []
        self.names: list[str] = []
        self.done = 0

    def planned(self, names: list[str]) -> None:
        self.names = names

    def progress(self, run: int, phase: str, done: int, total: int) -> None:
        assert 0 <= done <= total
        self.phases.append(phase)

    def finished(self, run: int) -> None:
        self.done += 1


def test_progress_is_heard_of_and_the_lock_is_free(gambling: esper.Dataset) -> None:
    heard, ticks, over = Heard(), [], threading.Event()
    esper.train(gambling, "rvs", progress=heard, mlp__steps=20)
    assert "policy" in heard.phases

    def tick() -> None:
        while not over.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.01)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        # Without anything that is called back, which would let others in by itself.
        esper.train(gambling, "rvs", progress=False, mlp__steps=1_500)
    finally:
        over.set()
    thread.join(timeout=60)
    # Another thread went on meanwhile.
    assert len(ticks) >= 3


def test_ctrl_c_stops_and_the_run_goes_on(gambling: esper.Dataset, ctrl_c: CtrlC, tmp_path: Path) -> None:
    """It ends with the same bytes as one that was never stopped."""
    asked = {"method": "rvs", "mlp__steps": 5_000}
    whole = esper.train(gambling, out=tmp_path / "whole", progress=False, **asked)
    with pytest.raises(KeyboardInterrupt):
        esper.train(gambling, out=tmp_path / "run", progress=ctrl_c, **asked)
    assert not (tmp_path / "run" / "policy.safetensors").exists()
    again = esper.train(gambling, out=tmp_path / "run", progress=False, resume=True, **asked)
    assert (again.path / "policy.safetensors").read_bytes() == (whole.path / "policy.safetensors").read_bytes()


def test_a_listener_that_fails_stops_it(gambling: esper.Dataset) -> None:
    class Failing(Listener):
        def progress(self, run: int, phase: str, done: int, total: int) -> None:
            raise ArithmeticError("enough")

    with pytest.raises(ArithmeticError, match="enough"):
        esper.train(gambling, "rvs", progress=Failing(), mlp__steps=100_000)


def returns(data: esper.Dataset) -> np.ndarray:
    return data.returns_to_go()


def test_a_function_is_a_method(gambling: esper.Dataset) -> None:
    """Return conditioning written in Python gives the labels, and the policy, of the one that is built in."""
    arguments = {"progress": False, "seed": 2, "settings": {**TINY, "condition": "return"}}
    ours, theirs = esper.train(gambling, returns, **arguments), esper.train(gambling, "rvs", **arguments)
    np.testing.assert_array_equal(ours.labels, theirs.labels)
    column = esper.train(gambling, gambling.returns_to_go(), **arguments)
    np.testing.assert_array_equal(column.labels, theirs.labels)
    assert ours.method == "returns"


def test_what_a_function_raises_is_raised(gambling: esper.Dataset) -> None:
    def broken(data: esper.Dataset) -> np.ndarray:
        raise LookupError("no labels today")

    with pytest.raises(LookupError, match="no labels today"):
        esper.train(gambling, broken, progress=False)
    with pytest.raises(esper.DataError, match="3 labels for 3000 steps"):
        esper.train(gambling, lambda data: [1, 2, 3], progress=False)
    with pytest.raises(esper.DataError, match="2 labels for 3000 steps"):
        esper.train(gambling, np.zeros(2), progress=False)
    with pytest.raises(TypeError, match="one number a step"):
        esper.train(gambling, lambda data: ["a"] * data.steps, progress=False)


def test_relabellers_join_a_comparison(gambling: esper.Dataset, tmp_path: Path) -> None:
    heard = Heard()
    results = esper.run(
        gambling,
        ["rvs"],
        seeds=1,
        relabellers={"mine": returns, "zeros": np.zeros(gambling.steps)},
        out=tmp_path / "comparison",
        episodes=50,
        progress=heard,
        settings={**TINY, "condition": "return"},
    )
    assert [entry["method"] for entry in results["methods"]] == ["rvs", "mine", "zeros"]
    assert heard.done == len(heard.names) == 3
    assert len(results.runs(gambling)) == 3
    assert results.method("mine")["best_return"] is not None
    assert (tmp_path / "comparison" / "report.html").exists()
    assert "mine" in results.report().html
    with pytest.raises(esper.SettingsError, match="no method `other`"):
        results.method("other")


def test_a_task_is_compared_on() -> None:
    results = esper.run("gambling", "rvs,bc", seeds=1, steps=1_000, episodes=20, progress=False, settings=TINY)
    assert results["task"] == "gambling" and len(results["methods"]) == 2
    with pytest.raises(esper.SettingsError, match="no task `chess`"):
        esper.run("chess")


def test_data_that_teaches_nothing_is_refused() -> None:
    data = esper.Dataset.from_arrays([0, 1], [0, 1], [0.0, 1.0], lengths=[1, 1])
    with pytest.raises(esper.DataError):
        esper.train(data, progress=False)


def test_data_may_stay_on_disk(gambling: esper.Dataset, tmp_path: Path) -> None:
    """A limit of memory changes nothing but where the data is."""
    path = gambling.write(tmp_path / "data.parquet")
    assert esper.Dataset.read(path, memory="1GB", beside=tmp_path) == gambling
    runs = [
        esper.train(path, "rvs", out=tmp_path / name, memory=memory, progress=False, settings=TINY)
        for name, memory in (("free", None), ("bound", "1GB"))
    ]
    first, second = ((run.path / "policy.safetensors").read_bytes() for run in runs)
    assert first == second
    with pytest.raises(esper.SettingsError):
        esper.train(path, memory="much", progress=False)
