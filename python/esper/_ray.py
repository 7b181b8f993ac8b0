"""The runs of a sweep as tasks of Ray.

A task trains into its folder, which all nodes share, and leaves there how far it is (a beacon): the process that started the
sweep reads it for its bars, and a task that finds its folder locked reads there who has it.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from . import _esper
from ._progress import Listener
from .data import Dataset
from .errors import BusyError, EsperError

if TYPE_CHECKING:
    from .sweep import Cell

__all__ = ["run"]

#: The folder of beacons, within that of a comparison.
BEACONS = ".ray"

#: Seconds between two looks.
LOOK = 0.5

#: How long a lock is left to itself whose holder's node is gone, in seconds: the leases of network file systems run out meanwhile.
GRACE = 120.0

#: How long a task waits for a holder of whom nothing is heard, in seconds.
PATIENCE = 600.0

#: How long tasks have to stop by themselves, in seconds.
STOPPING = 20.0


@dataclass(frozen=True)
class Job:
    """One run: what a task is given."""

    #: The name of a task that makes data, or a file that all nodes see.
    source: str | Path
    named: Path
    folder: Path
    asked: dict[str, Any]
    method: str
    seed: int
    #: What its method is, pickled, if it is a relabeller of Python's.
    relabeller: bytes | None
    #: The folder of the run.
    path: Path
    threads: int
    version: str

    @property
    def beacon(self) -> Path:
        return self.folder / BEACONS / f"{self.path.name}.json"


def run(begun: _esper.Sweep, cells: Sequence[Cell], cpus: int, retries: int, heard: Listener | None) -> list[str | None]:
    """Does all runs of a sweep that was begun; gives why some failed, in their order."""
    written = set()
    for cell in cells:
        if isinstance(cell.source, Dataset) and cell.shared not in written:
            cell.source.write(cell.shared, overwrite=True)
            written.add(cell.shared)
        (cell.folder / BEACONS).mkdir(exist_ok=True)
    names, jobs = [], []
    for at, name, method, seed, path in begun.runs():
        cell = cells[at]
        source = cell.task if cell.task is not None else cell.shared
        # A task is only given the relabeller that it needs: of the others the name is enough.
        own = dict(cell.asked["relabellers"])
        asked = {**cell.asked, "relabellers": list(own)}
        relabeller = ray.cloudpickle.dumps(own[method]) if method in own else None
        names.append(name)
        jobs.append(
            Job(source, cell.named, cell.folder, asked, method, seed, relabeller, path, cpus, _esper.__version__)
        )
    if heard is not None:
        heard.planned(names)
    gpus = 1 if any(cell.asked["device"] == "gpu" for cell in cells) else 0
    task = ray.remote(
        num_cpus=cpus, num_gpus=gpus, max_retries=retries, retry_exceptions=False, scheduling_strategy="SPREAD"
    )(_run)
    pending = {task.options(name=name).remote(job): at for at, (name, job) in enumerate(zip(names, jobs))}
    failures: list[str | None] = [None] * len(jobs)
    try:
        while pending:
            done, _ = ray.wait(list(pending), num_returns=len(pending), timeout=LOOK)
            for reference in done:
                at = pending.pop(reference)
                failures[at] = _outcome(reference)
                if heard is not None and failures[at] is None:
                    heard.finished(at)
                elif heard is not None:
                    heard.failed(at, failures[at] or "")
            if heard is not None:
                _tell(heard, jobs, pending.values())
    except BaseException:
        _cancel(list(pending))
        raise
    for cell in cells:
        shutil.rmtree(cell.folder / BEACONS, ignore_errors=True)
    return failures


def _outcome(reference: Any) -> str | None:
    """Why a task failed, if it did."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
        return f"{type(cause).__name__}: {lines[0] if lines else 'no reason was given'}"


def _tell(heard: Listener, jobs: Sequence[Job], under_way: Any) -> None:
    """Reads how far runs are."""
    for at in under_way:
        found = _read(jobs[at].beacon)
        if found is not None and found["total"]:
            heard.progress(at, found["phase"], found["done"], found["total"])


def _cancel(references: list[Any]) -> None:
    """Stops tasks: each at the next moment that it looks, so that nothing is half-written; those that do not, by force."""
    for reference in references:
        ray.cancel(reference)
    _, left = ray.wait(references, num_returns=len(references), timeout=STOPPING) if references else ([], [])
    for reference in left:
        ray.cancel(reference, force=True)


# ---- in a task


class _Beacon(Listener):
    """Leaves how far a run is, and on which node, in a file."""

    def __init__(self, path: Path, node: str) -> None:
        self._path = path
        self._node = node
        self._written = 0.0

    def progress(self, run: int, phase: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._written + LOOK:
            return
        self._written = now
        document = {"node": self._node, "process": os.getpid(), "phase": phase, "done": done, "total": total}
        part = self._path.with_suffix(f".{os.getpid()}")
        try:
            part.write_text(json.dumps(document), encoding="utf-8")
            part.replace(self._path)
        except OSError:
            # Only bars miss it.
            pass


def _read(beacon: Path) -> dict[str, Any] | None:
    """What a task left, if it did."""
    try:
        found = json.loads(beacon.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"node", "phase", "done", "total"} <= found.keys() else None


def _run(job: Job) -> str | None:
    """One run, on whatever node; gives why it failed, if it did. What was begun before is gone on with."""
    if job.version != _esper.__version__:
        return f"the node has version {_esper.__version__} of esper, and the sweep was begun by {job.version}"
    _esper.set_threads(job.threads)
    beacon = _Beacon(job.beacon, ray.get_runtime_context().get_node_id())
    waiting = Waiting(job)
    try:
        source: _esper.Dataset | str
        if isinstance(job.source, Path):
            source = Dataset.read(job.source, memory=job.asked["memory"], beside=job.folder)._inner
        else:
            source = job.source
        relabeller = None if job.relabeller is None else ray.cloudpickle.loads(job.relabeller)
        relabellers = [(name, relabeller if name == job.method else _elsewhere) for name in job.asked["relabellers"]]
        cell = (source, job.named, job.folder, {**job.asked, "relabellers": relabellers})
        while True:
            try:
                _esper.run_one(cell, job.method, job.seed, beacon)
                return None
            except BusyError:
                if not waiting.goes_on():
                    raise
    except EsperError as error:
        return str(error)
    except Exception as error:  # of a relabeller, which may raise anything
        return f"{type(error).__name__}: {error}"


def _elsewhere(data: Any) -> Any:
    """Stands for a relabeller of another run."""
    raise RuntimeError("this relabeller is not of this run")


class Waiting:
    """For a folder that somebody else has locked.

    That is the task's own predecessor, as a rule: on a node that Ray has given up. If it is gone, so is its lock, at once on the same
    machine, and when its lease has run out on a network file system; where that never happens the lock is taken away. If it is
    alive after all, and only Ray cannot reach it, it is waited for: then the run is complete.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._seen: dict[str, Any] | None = None
        self._since = time.monotonic()

    def goes_on(self) -> bool:
        """Waits a moment. Says whether to try again."""
        time.sleep(LOOK)
        found, now = _read(self._job.beacon), time.monotonic()
        if found != self._seen:
            self._seen, self._since = found, now
        quiet = now - self._since
        if found is not None and not _is_alive(found["node"]) and quiet > GRACE:
            _esper.break_lock(self._job.path)
            self._since = now
            return True
        return quiet < PATIENCE


def _is_alive(node: str) -> bool:
    return any(each["NodeID"] == node and each["Alive"] for each in ray.nodes())
