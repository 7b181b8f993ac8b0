"""Sweeps: methods × seeds × settings × data sets, on this machine or on a Ray cluster."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Union

from . import _esper
from ._html import table
from ._progress import Listener, listener
from .data import Dataset
from .errors import RunError, SettingsError
from .learning import Relabeller, Results, _asked, _compared, _document, _pairs, _value

__all__ = ["Sweep", "sweep"]

#: Data to learn from: a data set, a file of one, or the name of a task.
Source = Union[Dataset, str, "os.PathLike[str]"]

#: What a sweep leaves beside its comparisons.
FILE = "sweep.json"

#: Where data waits for the nodes of a cluster, if it came from memory.
GIVEN = "given.parquet"


class Cell(NamedTuple):
    """One comparison of a sweep."""

    data: str
    settings: str | None
    source: Source
    #: The folder of its data set, and its own, which may be the same.
    base: Path
    folder: Path
    asked: dict[str, Any]

    @property
    def task(self) -> str | None:
        """The name of the task that makes the data, if one does."""
        return self.source if isinstance(self.source, str) and not os.path.exists(self.source) else None

    @property
    def named(self) -> Path:
        """Where the data was, as results say it."""
        if isinstance(self.source, Dataset):
            return self.source.path or Path(self.data)
        return Path(self.source)

    @property
    def shared(self) -> Path:
        """Where the nodes of a cluster find the data: where it is, or written into the folder that they share."""
        return self.base / GIVEN if isinstance(self.source, Dataset) else Path(self.source).absolute()


def sweep(
    data: Source | Sequence[Source] | Mapping[str, Source],
    methods: Sequence[str] | str | None = None,
    seeds: int = 3,
    policy: str = "mlp",
    *,
    settings: Mapping[str, Any] | Mapping[str, Mapping[str, Any]] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    relabellers: Mapping[str, Relabeller] | None = None,
    ray: bool | None = None,
    cpus: int = 1,
    retries: int = 10,
    preset: str = "quick",
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    offline: bool = False,
    episodes: int | None = None,
    dataset: str | None = None,
    steps: int | None = None,
    progress: bool | Listener = True,
    tensorboard: bool = False,
    device: str = "cpu",
    memory: str | int | None = None,
    config: str | os.PathLike[str] | None = None,
    **more: Any,
) -> Sweep:
    """Compares methods and seeds on every data set with all settings: many of :func:`run` at once.

    With Ray every run (one method, one seed) is a task of its own. It trains into its folder and leaves checkpoints there; if its
    node is lost, Ray gives the task to another, which goes on from the last checkpoint. Without Ray the runs share the cores of
    this machine. Policies, labels and results have the same bytes either way, but for how long it took.

    A run that fails takes no other with it: it is named in the results, and a warning says so. Ctrl-C stops all of it, and the same call
    with ``resume=True`` goes on.

    :param data: a data set, a file of one or the name of a task; several of them in a list, or by name in a dictionary.
    :param methods: their names, or ``"all"``; as for :func:`run`.
    :param seeds: how many: 0, 1, 2, …
    :param settings: settings for all runs, as in ``{"mlp.steps": 500}``; or several by name, as in
        ``{"short": {"mlp.steps": 500}, "long": {"mlp.steps": 5_000}}``, each of which is compared by itself.
    :param grid: settings with several values each, as in ``{"mlp.steps": [500, 5_000]}``: every combination is compared by itself.
    :param ray: whether runs are tasks of Ray (``pip install 'esper-rl[ray]'``). If nothing is said they are where ``ray.init()`` was
        called before, so that nobody gets a cluster without asking. With ``True``, Ray is started if it was not.
    :param cpus: cores of each task of Ray, and threads that it makes use of.
    :param retries: how often a task of Ray that was lost with its node is begun again.
    :param out: the folder to keep everything in; with Ray it is needed, and has to be on a path that all nodes share, as has
        data that is given as a file. Every comparison has a folder in it like that of ``esper run``: by data set if there
        are several, then by settings if there are.

    The other arguments are those of :func:`run`.

    >>> found = esper.sweep(["gambling", "connect-four"], ["esper", "rvs"], seeds=5, out="sweep")    # doctest: +SKIP
    >>> found["gambling"].method("esper")["offline_return"]["mean"]                                 # doctest: +SKIP
    1.0
    """
    on_ray = _on_ray(ray)
    sources = _sources(data)
    variants = _variants(settings, grid, more)
    compared = _compared(methods, relabellers, 3)
    _refuse_twice("the method", compared or [])
    if cpus < 1:
        raise SettingsError(f"a task needs at least one core; {cpus} makes no sense")
    temporary = None
    if out is None:
        if resume:
            raise SettingsError("there is nothing to go on with: name the folder of the sweep, out=…")
        if on_ray:
            raise SettingsError("with Ray a sweep is kept in a folder that all nodes share: name it, out=…")
        temporary = tempfile.TemporaryDirectory(prefix="esper-")
    path = (Path(temporary.name) / "sweep" if temporary else Path(out)).absolute()  # type: ignore[arg-type]
    document = _document(config)
    several = isinstance(data, (Mapping, Sequence)) and not isinstance(data, str)
    cells = []
    for (name, source), (variant, pairs) in itertools.product(sources, variants):
        base = path / name if several else path
        asked = _asked(
            methods=compared,
            policy=policy,
            seeds=seeds,
            preset=preset,
            document=document,
            pairs=pairs,
            resume=resume,
            tensorboard=tensorboard,
            device=device,
            memory=memory,
            relabellers=relabellers,
            offline=offline,
            episodes=episodes,
            dataset=dataset,
            steps=steps,
            prefix="".join(f"{word} " for word in (name if several else None, variant) if word),
        )
        cells.append(Cell(name, variant, source, base, base / variant if variant else base, asked))
    heard = listener(progress, "sweep")
    try:
        opened = _opened(cells, path)
        begun = _esper.Sweep([(opened[of.data], of.named, of.folder, of.asked) for of in cells], heard)
        if on_ray:
            from . import _ray

            failures = _ray.run(begun, cells, cpus, retries, heard)
        else:
            failures = begun.run(heard)
        gathered = begun.gather(failures)
        del begun
    finally:
        if heard is not None:
            heard.close()
    return Sweep._made(cells, gathered, path, temporary)


class Sweep(Mapping[Any, Results]):
    """What came of a sweep: the results of every comparison, by data set and settings.

    ``found["gambling", "short"]``; where there is one data set, or one set of settings, the other name alone is enough.
    """

    def __init__(
        self, results: dict[tuple[str, str | None], Results], failed: list[dict[str, Any]], path: Path, temporary: Any = None
    ) -> None:
        self._results = results
        #: Runs that failed: ``data``, ``settings``, ``method``, ``seed``, and the ``error`` in words.
        self.failed = failed
        #: The folder that keeps everything.
        self.path = path
        self._temporary = temporary

    @classmethod
    def _made(cls, cells: Sequence[Cell], gathered: Sequence[dict[str, Any]], path: Path, temporary: Any) -> Sweep:
        """Puts together what came of every comparison, and says what did not."""
        results, failed = {}, []
        for cell, found in zip(cells, gathered):
            failed += [{"data": cell.data, "settings": cell.settings, **run} for run in found["failed"]]
            if found["results"] is not None:
                results[cell.data, cell.settings] = Results(found["results"], cell.folder, temporary)
        if failed:
            first = failed[0]
            named = " ".join(str(first[key]) for key in ("data", "settings", "method") if first[key] is not None)
            words = f"{named} seed {first['seed']}: {first['error']}"
            if not results:
                raise RunError(f"every run failed, the first of them {words}")
            count = "a run" if len(failed) == 1 else f"{len(failed)} runs"
            warnings.warn(f"{count} failed; {words}", RuntimeWarning, stacklevel=3)
        made = cls(results, failed, path, temporary)
        document = {"rows": made.rows(), "failed": failed}
        part = path / f".{FILE}.part"
        part.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        part.replace(path / FILE)
        return made

    @property
    def only(self) -> Results:
        """The results, where there is one comparison."""
        if len(self._results) != 1:
            raise SettingsError(f"there are {len(self._results)} comparisons; choose one by data set and settings")
        return next(iter(self._results.values()))

    def __getitem__(self, key: Any) -> Results:
        names = key if isinstance(key, tuple) else (key,)
        found = [of for of in self._results if (of == names if len(names) == 2 else names[0] in of)]
        if len(found) == 1:
            return self._results[found[0]]
        if not found:
            known = ", ".join("/".join(filter(None, of)) for of in self._results)
            raise KeyError(f"there are no results of {key!r}; there are {known}")
        raise KeyError(f"{key!r} is the name of {len(found)} comparisons: name data set and settings")

    def __iter__(self) -> Iterator[tuple[str, str | None]]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def rows(self) -> list[dict[str, Any]]:
        """One row for every method of every comparison: for ``pandas.DataFrame(found.rows())``."""
        return [
            {
                "data": data,
                "settings": settings,
                "method": of["method"],
                "runs": len(of["runs"]),
                "best_return": _mean(of["best_return"]),
                "offline_return": _mean(of["offline_return"]),
                "offline_promise": None if of["offline_promise"] is None else of["offline_promise"]["promise"],
                "calibration_error": _mean(of["calibration_error"]),
                "train_seconds": _mean(of["train_seconds"]),
                "folder": os.path.relpath(results.path, self.path),
            }
            for (data, settings), results in self._results.items()
            for of in results["methods"]
        ]

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        runs = sum(row["runs"] for row in self.rows())
        of = "1 comparison" if len(self) == 1 else f"{len(self)} comparisons"
        kept = "" if self._temporary else f", in {self.path}"
        return f"<esper.Sweep: {runs} runs in {of}{failed}{kept}>"

    def _repr_html_(self) -> str:
        columns = ["data", "settings", "method", "runs", "best_return", "offline_return", "offline_promise", "calibration_error"]

        def cell(value: Any) -> str:
            return "–" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)

        rows = [[cell(row[column]) for column in columns] for row in self.rows()]
        rows += [
            [run["data"], cell(run["settings"]), run["method"], f"seed {run['seed']} failed", run["error"], "", "", ""]
            for run in self.failed
        ]
        return table(repr(self).strip("<>"), rows, [column.replace("_", " ") for column in columns])


def _mean(value: dict[str, float] | None) -> float | None:
    return None if value is None else value["mean"]


def _on_ray(ray: bool | None) -> bool:
    """Whether runs are tasks of Ray: if that was said, or where Ray was started before."""
    if ray is False:
        return False
    started = sys.modules.get("ray")
    if started is not None and started.is_initialized():
        return True
    if not ray:
        return False
    try:
        import ray as found
    except ImportError:
        words = "Ray is not installed: pip install 'esper-rl[ray]', or leave out ray=True to run on this machine"
        raise SettingsError(words) from None
    found.init()
    return True


def _sources(data: Source | Sequence[Source] | Mapping[str, Source]) -> list[tuple[str, Source]]:
    """Every data set with its name."""
    if isinstance(data, Mapping):
        for name in data:
            _esper.check_name(name)
        named = list(data.items())
    elif isinstance(data, Sequence) and not isinstance(data, str):
        named = [(_name(each), each) for each in data]
    else:
        named = [(_name(data, "data"), data)]
    if not named:
        raise SettingsError("there is no data: give at least one data set")
    for name, source in named:
        if not isinstance(source, (Dataset, str, os.PathLike)):
            raise SettingsError(f"{name}: data is a data set, a file of one or the name of a task, not {type(source).__name__}")
    _refuse_twice("the data set", [name for name, _ in named], "; give names: {'one': …, 'other': …}")
    return named


def _name(source: Source, otherwise: str | None = None) -> str:
    """What data is called if nobody says: the task, or the file."""
    if isinstance(source, Dataset):
        if source.path is None:
            if otherwise:
                return otherwise
            raise SettingsError("data that was made in memory has no name: give names, {'one': …, 'other': …}")
        source = source.path
    if not isinstance(source, (str, os.PathLike)):
        return otherwise or "data"
    exists = os.path.exists(source)
    return _slug(Path(source).stem if exists or isinstance(source, os.PathLike) else str(source)) or "data"


def _slug(words: str) -> str:
    """Words as a folder may be called."""
    return re.sub(r"[^a-z0-9_.]+", "-", words.lower()).strip("-._")


def _variants(
    settings: Mapping[str, Any] | None, grid: Mapping[str, Sequence[Any]] | None, more: Mapping[str, Any]
) -> list[tuple[str | None, list[str]]]:
    """Every set of settings with its name; a single one has none."""
    named: dict[str, Mapping[str, Any]] | None = None
    of_mappings = [isinstance(value, Mapping) for value in (settings or {}).values()]
    if any(of_mappings):
        if not all(of_mappings):
            raise SettingsError("settings are either for all runs, {'mlp.steps': 500}, or several by name, {'short': {…}, …}")
        named = dict(settings or {})
        settings = None
        for name in named:
            _esper.check_name(name)
    base = {**(settings or {}), **{name.replace("__", "."): value for name, value in more.items()}}
    if grid:
        for key, values in grid.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise SettingsError(f"the grid gives `{key}` a list of values, as in {{'{key}': [1, 2]}}")
        combined = [dict(zip(grid, values)) for values in itertools.product(*grid.values())]
        points = [("_".join(_slug(f"{key}-{_value(value)}") for key, value in each.items()), each) for each in combined]
        _refuse_twice("the settings", [name for name, _ in points])
        if named is None:
            named = dict(points)
        else:
            named = {f"{name}_{point}": {**of, **each} for name, of in named.items() for point, each in points}
    if named is None:
        return [(None, _pairs(base, {}))]
    return [(name, _pairs({**base, **of}, {})) for name, of in named.items()]


def _refuse_twice(what: str, names: Sequence[str], hint: str = "") -> None:
    for at, name in enumerate(names):
        if name in names[:at]:
            raise SettingsError(f"{what} `{name}` is there twice{hint}")


def _opened(cells: Sequence[Cell], path: Path) -> dict[str, Any]:
    """The data of every name, each read once; of a task its name."""
    opened: dict[str, Any] = {}
    for cell in cells:
        if cell.data in opened:
            continue
        source, memory = cell.source, cell.asked["memory"]
        if cell.task is None and not isinstance(source, Dataset):
            if memory is not None:
                path.mkdir(parents=True, exist_ok=True)
            source = Dataset.read(source, memory=memory, beside=path)
        opened[cell.data] = source._inner if isinstance(source, Dataset) else cell.task
    return opened
