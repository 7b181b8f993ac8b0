"""Sweeps on Ray: a cluster of two nodes on this machine, one of which is killed."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TINY
from test_sweep import Heard, policies, without_time

import esper

ray = pytest.importorskip("ray", reason="RAY IS NOT INSTALLED: sweeps on a cluster are not tested")
pytestmark = pytest.mark.slow


def started() -> Any:
    """A head without cores, which runs nothing, and two nodes."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=0, include_dashboard=False)
        cluster.workers = [cluster.add_node(num_cpus=1) for _ in range(2)]
        ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
        cluster.wait_for_nodes(timeout=120)
    except Exception:
        stop(cluster)
        raise
    return cluster


def stop(cluster: Any) -> None:
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Ray's sockets are in there, and the paths of sockets have to be short.
    os.environ.setdefault("RAY_TMPDIR", "/tmp")
    try:
        cluster = started()
    except Exception:
        # Ray gives a node half a minute, which a busy machine may not have had: once more.
        try:
            cluster = started()
        except Exception as error:
            pytest.skip(f"RAY'S NODES COULD NOT BE STARTED: sweeps on a cluster are not tested ({error})")
    yield cluster
    stop(cluster)


class Killer(Heard):
    """Kills a node as soon as a run of ESPER on it has clustered."""

    def __init__(self, cluster: Any, path: Path) -> None:
        super().__init__()
        self.cluster, self.path = cluster, path
        self.victim, self.process = "", 0
        #: What the run went through after it, in another process.
        self.after: set[str] = set()

    def progress(self, run: int, phase: str, done: int, total: int) -> None:
        from esper import _ray

        name = self.names[run].replace(" seed ", "-mlp-")
        at_work = _ray._read(self.path / _ray.BEACONS / f"{name}.json")
        if at_work is None:
            return
        if name == self.victim and at_work["process"] != self.process:
            self.after.add(at_work["phase"])
        if not self.victim and (self.path / name / "checkpoints" / "cluster").exists():
            self.victim, self.process = name, at_work["process"]
            node = next(each for each in self.cluster.workers if each.node_id == at_work["node"])
            self.cluster.remove_node(node, allow_graceful=False)


def test_a_node_is_killed_and_nothing_is_lost(
    cluster: Any, gambling: esper.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from esper import _ray

    # A fast machine is done with a run in half a second.
    monkeypatch.setattr(_ray, "LOOK", 0.05)
    asked: dict[str, Any] = {"seeds": 2, "episodes": 30, "cluster__steps": 150, "mlp__steps": 2_000, "mlp__hidden": 64}
    here = esper.sweep(gambling, ["esper", "rvs"], out=tmp_path / "here", ray=False, progress=False, **asked)
    heard = Killer(cluster, tmp_path / "there")
    there = esper.sweep(gambling, ["esper", "rvs"], out=tmp_path / "there", progress=heard, **asked)
    assert heard.victim.startswith("esper"), "a node was killed"
    assert heard.after and "cluster" not in heard.after, "the run went on from its checkpoint"
    # Ray's head takes a while to believe it.
    patience = time.monotonic() + 60
    while all(node["Alive"] for node in ray.nodes()):
        assert time.monotonic() < patience, "the node lives"
        time.sleep(0.1)
    assert sorted(heard.done) == [0, 1, 2, 3] and not heard.errors and not there.failed
    assert without_time(dict(there.only)) == without_time(dict(here.only))
    assert policies(there.path) == policies(here.path) and len(policies(here.path)) == 4
    for name in ("labels.parquet", "metrics.jsonl", "policy.safetensors"):
        assert (there.path / heard.victim / name).read_bytes() == (here.path / heard.victim / name).read_bytes()
    assert (there.path / "report.html").exists() and not (there.path / ".ray").exists()


def test_failures_are_named_and_functions_go_along(cluster: Any, gambling: esper.Dataset, tmp_path: Path) -> None:
    def doubled(data: esper.Dataset) -> np.ndarray:
        return 2 * data.returns_to_go()

    def broken(data: esper.Dataset) -> np.ndarray:
        raise LookupError("no labels today")

    with pytest.warns(RuntimeWarning, match="a run failed; .*no labels today"):
        swept = esper.sweep(
            {"one": gambling.first_steps(900)},
            [],
            seeds=1,
            relabellers={"doubled": doubled, "broken": broken},
            out=tmp_path / "sweep",
            offline=True,
            progress=False,
            settings=TINY,
        )
    assert [run["method"] for run in swept.failed] == ["broken"]
    assert swept["one"].method("doubled")["runs"]


def test_ctrl_c_stops_tasks_and_this_machine_goes_on(
    cluster: Any, gambling: esper.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the bytes of one that was never stopped, and never on a cluster."""
    from esper import _ray

    monkeypatch.setattr(_ray, "LOOK", 0.05)

    class Interrupting(Heard):
        def progress(self, run: int, phase: str, done: int, total: int) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    asked: dict[str, Any] = {"seeds": 2, "offline": True, "mlp__steps": 12_000}
    whole = esper.sweep({"one": gambling}, ["rvs"], out=tmp_path / "whole", ray=False, progress=False, **asked)
    with pytest.raises(KeyboardInterrupt):
        esper.sweep({"one": gambling}, ["rvs"], out=tmp_path / "sweep", progress=Interrupting(), **asked)
    assert not policies(tmp_path / "sweep")
    again = esper.sweep({"one": gambling}, ["rvs"], out=tmp_path / "sweep", resume=True, ray=False, progress=False, **asked)
    assert policies(again.path) == policies(whole.path) and len(policies(whole.path)) == 2
    assert without_time(dict(again.only)) == without_time(dict(whole.only))


def test_a_folder_is_needed(cluster: Any, gambling: esper.Dataset) -> None:
    with pytest.raises(esper.SettingsError, match="all nodes share"):
        esper.sweep(gambling, ["rvs"], progress=False)


def test_locks_of_dead_nodes_are_broken(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system may keep the lock of a machine that is gone. A task then waits, and takes it away."""
    from esper import _ray

    job = _ray.Job("gambling", Path("gambling"), tmp_path, {}, "rvs", 0, None, tmp_path / "rvs-mlp-0", 1, "")
    job.path.mkdir()
    job.beacon.parent.mkdir()
    lock = job.path / ".esper.lock"
    monkeypatch.setattr(_ray, "LOOK", 0.01)
    monkeypatch.setattr(_ray, "GRACE", 0.2)
    alive = next(node["NodeID"] for node in ray.nodes() if node["Alive"])
    for node, patience, broke in [("0" * 56, 60.0, True), (alive, 0.4, False)]:
        monkeypatch.setattr(_ray, "PATIENCE", patience)
        _ray._Beacon(job.beacon, node).progress(0, "policy", 1, 2)
        with lock.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            waiting, started = _ray.Waiting(job), time.monotonic()
            goes_on = True
            while goes_on and lock.exists():
                goes_on = waiting.goes_on()
            assert goes_on == broke and lock.exists() != broke
            assert time.monotonic() - started > (0.2 if broke else 0.4)
