"""Learning: single runs, and comparisons of methods and seeds."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from . import _esper
from ._html import framed
from ._progress import Listener, listener
from .data import Dataset
from .errors import RunError, SettingsError
from .policy import Policy, load

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Relabeller", "Results", "Run", "methods", "open_run", "run", "train"]

#: A relabeller from Python: given a data set, one label a step; or such a column itself.
Relabeller = Union[Callable[[Dataset], "ArrayLike"], "ArrayLike"]


def methods() -> dict[str, str]:
    """The methods that are built in, each with what it does."""
    return dict(_esper.methods())


def train(
    data: Dataset | str | os.PathLike[str],
    method: str | Relabeller = "esper",
    policy: str = "mlp",
    seed: int = 0,
    *,
    preset: str = "quick",
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | Listener = True,
    tensorboard: bool = False,
    device: str = "cpu",
    memory: str | int | None = None,
    config: str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Run:
    """Learns a policy from data: what ``esper train`` does.

    Ctrl-C stops it within a moment, and raises ``KeyboardInterrupt``; with ``out``, the same call with ``resume=True`` goes on and
    ends with the same bytes. Other threads of Python go on meanwhile.

    :param data: a data set, or a file of one.
    :param method: ``"esper"``, ``"rvs"`` (return conditioning), ``"cql"``, ``"bc"``; or a relabeller of your own: a function that
        is given the data set and gives one label a step, or such a column.
    :param policy: what is trained on labels: ``"mlp"`` or ``"transformer"``.
    :param seed: decides everything random.
    :param preset: ``"quick"``, sized for two CPU cores, or ``"paper"``.
    :param out: the folder to keep the run in. Without, it is kept in a temporary one, for as long as the run object is
        (:meth:`Run.save` keeps it).
    :param memory: take at most so much memory, as in ``"2GB"``: a file of data that is larger stays on disk while it is learned from.
    :param config: a TOML file of settings, as a run's ``config.toml``.
    :param settings: settings by name, as in ``{"cluster.steps": 100}``; also as arguments, with two underscores for the
        dot: ``cluster__steps=100``, ``condition="level"``.

    >>> run = esper.train(data, mlp__steps=500)                                                 # doctest: +SKIP
    >>> run.promises[-1]                                                                        # doctest: +SKIP
    {'level': 0.95, 'promise': 1.0, 'low': 0.97, 'high': 1.02}
    """
    dataset = data if isinstance(data, Dataset) else Dataset.read(data, memory=memory, beside=out)
    name, relabellers = _method(method)
    temporary = None
    if out is None:
        if resume:
            raise SettingsError("there is nothing to go on with: name the folder of the run, out=…")
        temporary = tempfile.TemporaryDirectory(prefix="esper-")
    path = Path(temporary.name) / "run" if temporary else Path(out)  # type: ignore[arg-type]
    if resume and not path.exists():
        raise RunError(f"there is no run in {path} to go on with")
    heard = listener(progress, name)
    try:
        _esper.train(
            dataset._inner,
            name,
            policy,
            seed,
            preset,
            _document(config),
            _pairs(settings, more),
            path,
            resume,
            tensorboard,
            device,
            None if memory is None else str(memory),
            relabellers,
            heard,
        )
    finally:
        if heard is not None:
            heard.close()
    return Run(path, dataset, _temporary=temporary)


class Run:
    """A training that is complete: its labels, what they promise, and its policy.

    >>> run = esper.train(data, out="my-run")                                                   # doctest: +SKIP
    >>> run = esper.open_run("my-run", data)                                                    # doctest: +SKIP
    """

    def __init__(
        self, path: str | os.PathLike[str], data: Dataset | None = None, *, _temporary: Any | None = None
    ) -> None:
        #: The folder that keeps it.
        self.path = Path(path)
        #: What it was trained on, if that is at hand.
        self.data = data
        self._temporary = _temporary
        self._info: dict[str, Any] = _esper.run_info(self.path, None if data is None else data._inner)

    @property
    def method(self) -> str:
        """The name of its method."""
        return self._info["manifest"]["method"]

    @property
    def seed(self) -> int:
        """What decided everything random."""
        return self._info["manifest"]["seed"]

    @property
    def seconds(self) -> float:
        """How long training took."""
        return self._info["summary"]["train_seconds"]

    @property
    def condition(self) -> str:
        """What the policy is told: ``"return"``, ``"level"`` or ``"step-level"``."""
        return self._info["summary"]["condition"]

    @property
    def promises(self) -> list[dict[str, Any]]:
        """What every level gets, as far as the data says: ``level``, ``promise``, from ``low`` to ``high`` with nine chances of
        ten (``None`` where nothing is known of that), and how many ``episodes`` start with about such a label. Empty for
        methods that cannot be asked."""
        return self._info["summary"].get("outlook", [])

    @property
    def offline_level(self) -> float | None:
        """The level that was chosen from the data alone, where levels are told."""
        return self._info["summary"]["offline_level"]

    @property
    def offline_target(self) -> float | None:
        """The average return that is asked for where nobody says; ``None`` for methods that cannot be asked."""
        return self._info["summary"]["offline_target"]

    @property
    def findings(self) -> dict[str, Any]:
        """What is known of labels without the world: calibration on held-out episodes, the clustering, measures."""
        return self._info["summary"]["findings"]

    @property
    def leakage(self) -> float | None:
        """How much clusters tell about the world's own randomness; ``None`` for methods without clusters."""
        return self._info["leakage"]

    @property
    def warnings(self) -> list[str]:
        """What whoever uses the policy has to know first, of the data and of the training."""
        return self._info["warnings"]

    @property
    def differences(self) -> dict[str, Any] | None:
        """What the policy would do differently from the past, and where."""
        return self._info["differences"]

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """What was measured while training, in order."""
        return self._info["metrics"]

    @property
    def config(self) -> str:
        """Every setting, as TOML."""
        return self._info["config"]

    @cached_property
    def _labels(self) -> tuple[NDArray[np.float32], NDArray[np.uint8] | None] | None:
        if self.data is None:
            raise RunError(f"labels go with data: open the run with it, esper.open_run({str(self.path)!r}, data)")
        return _esper.labels(self.path, self.data._inner)

    @property
    def labels(self) -> NDArray[np.float32] | None:
        """The label of every step, ``[steps]``, in the order of the data: what the behaviour that took it was worth on
        average. ``None`` for methods without."""
        return None if self._labels is None else self._labels[0]

    @property
    def clusters(self) -> NDArray[np.float32] | None:
        """The probabilities of the clusters of every step, ``[steps, groups · categories]``; ``None`` for methods without."""
        if self._labels is None or self._labels[1] is None:
            return None
        return self._labels[1].astype(np.float32) / np.float32(255)

    @cached_property
    def policy(self) -> Policy:
        """The policy."""
        return load(self.path)

    def report(self, path: str | os.PathLike[str] | None = None) -> Report:
        """The page about it, one file that needs nothing else: shown in a notebook, written to ``path`` if that is given."""
        return Report(_esper.report(self.path), path)

    def save(self, path: str | os.PathLike[str]) -> Run:
        """Keeps a copy of the folder, which must not be there; gives the run in it."""
        target = Path(path)
        if target.exists():
            raise RunError(f"{target} is there already; name a new folder")
        shutil.copytree(self.path, target)
        return Run(target, self.data)

    def __repr__(self) -> str:
        return f"<esper.Run: {self.method}, seed {self.seed}, in {self.path}>"

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()


def open_run(path: str | os.PathLike[str], data: Dataset | str | os.PathLike[str] | None = None) -> Run:
    """Opens the folder of a run that is complete. Its labels can be had if the data is given."""
    if data is not None and not isinstance(data, Dataset):
        data = Dataset.read(data)
    return Run(path, data)


class Report:
    """A page about runs: HTML that needs nothing beside itself. Notebooks show it."""

    def __init__(self, html: str, path: str | os.PathLike[str] | None = None) -> None:
        #: The page.
        self.html = html
        if path is not None:
            self.write(path)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Writes the page, in place of an older one."""
        Path(path).write_text(self.html, encoding="utf-8")
        return Path(path)

    def __repr__(self) -> str:
        return f"<esper.Report: {len(self.html):,} characters of HTML; .write(path) keeps it>"

    def _repr_html_(self) -> str:
        return framed(self.html)


class Results(Mapping[str, Any]):
    """What a comparison gave: ``results.json`` as a mapping, with the folder that keeps all of it."""

    def __init__(self, document: dict[str, Any], path: Path, temporary: Any | None = None) -> None:
        self._document = document
        #: The folder.
        self.path = path
        self._temporary = temporary

    def __getitem__(self, key: str) -> Any:
        return self._document[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def method(self, name: str) -> dict[str, Any]:
        """The results of one method."""
        for entry in self._document["methods"]:
            if entry["method"] == name:
                return entry
        known = ", ".join(entry["method"] for entry in self._document["methods"])
        raise SettingsError(f"there is no method `{name}` in these results; there are {known}")

    def runs(self, data: Dataset | None = None) -> list[Run]:
        """The runs that were compared."""
        folders = sorted(at.parent for at in self.path.glob("*/training.json"))
        return [Run(folder, data) for folder in folders]

    def report(self, path: str | os.PathLike[str] | None = None) -> Report:
        """The page about it: shown in a notebook, written to ``path`` if that is given."""
        return Report(_esper.report(self.path), path)

    def __repr__(self) -> str:
        of = self._document.get("methods")
        names = ", ".join(entry["method"] for entry in of) if of else "shares of the data"
        return f"<esper.Results: {names}, in {self.path}>"

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()


def run(
    source: Dataset | str | os.PathLike[str],
    methods: Sequence[str] | str | None = None,
    seeds: int = 3,
    policy: str = "mlp",
    *,
    relabellers: Mapping[str, Relabeller] | None = None,
    preset: str = "quick",
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    offline: bool = False,
    episodes: int | None = None,
    dataset: str | None = None,
    steps: int | None = None,
    fractions: Sequence[float] | None = None,
    progress: bool | Listener = True,
    tensorboard: bool = False,
    device: str = "cpu",
    memory: str | int | None = None,
    config: str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Results:
    """Compares methods and seeds on a built-in task, or on data: what ``esper run`` does, ending in a report.

    :param source: the name of a task (``"gambling"``), a data set, or a file of one. Policies are tried in the world that data
        names; where it names none, results say what can be known without.
    :param methods: their names, or ``"all"``; the first three that are built in if nothing is said. Names of ``relabellers`` may
        be among them, and come last if they are not.
    :param seeds: how many: 0, 1, 2, …
    :param relabellers: methods of your own, by name: functions that are given a data set and give one label a step, or such
        columns. They join the comparison like any method.
    :param out: the folder to keep everything in; a temporary one, as long as the results are kept, if nothing is said.
    :param offline: try policies in no world, even where there is one.
    :param episodes: episodes with each target.
    :param dataset: another of a task's data sets.
    :param steps: at least so many steps of data of a task.
    :param fractions: see what less data gives: shares of the steps, above 0 and at most 1.

    The other arguments are those of :func:`train`.

    >>> results = esper.run("gambling", ["esper", "rvs"], seeds=1)                              # doctest: +SKIP
    >>> results.method("esper")["offline_return"]["mean"]                                       # doctest: +SKIP
    1.0
    """
    given: Any
    named = Path("data")
    if isinstance(source, Dataset):
        given, named = source._inner, source.path or named
    elif isinstance(source, str) and not os.path.exists(source):
        given = source
    else:
        read = Dataset.read(source, memory=memory, beside=out)
        given, named = read._inner, Path(source)
    asked = _asked(
        methods=_compared(methods, relabellers, 2 if fractions else 3),
        policy=policy,
        seeds=seeds,
        preset=preset,
        document=_document(config),
        pairs=_pairs(settings, more),
        resume=resume,
        tensorboard=tensorboard,
        device=device,
        memory=memory,
        relabellers=relabellers,
        offline=offline,
        episodes=episodes,
        dataset=dataset,
        steps=steps,
    )
    temporary = None
    if out is None:
        if resume:
            raise SettingsError("there is nothing to go on with: name the folder of the comparison, out=…")
        temporary = tempfile.TemporaryDirectory(prefix="esper-")
    path = Path(temporary.name) / "run" if temporary else Path(out)  # type: ignore[arg-type]
    heard = listener(progress, "esper")
    try:
        shares = None if fractions is None else [float(each) for each in fractions]
        document = _esper.run(given, named, asked, shares, path, heard)
    finally:
        if heard is not None:
            heard.close()
    return Results(document, path, temporary)


def _asked(
    *,
    methods: list[str] | None,
    policy: str,
    seeds: int,
    preset: str,
    document: str | None,
    pairs: list[str],
    resume: bool,
    tensorboard: bool,
    device: str,
    memory: str | int | None,
    relabellers: Mapping[str, Relabeller] | None,
    offline: bool,
    episodes: int | None,
    dataset: str | None,
    steps: int | None,
    prefix: str = "",
) -> dict[str, Any]:
    """What is asked of a comparison, as Rust takes it."""
    return {
        "methods": methods,
        "policy": policy,
        "seeds": seeds,
        "preset": preset,
        "document": document,
        "pairs": pairs,
        "resume": resume,
        "tensorboard": tensorboard,
        "device": device,
        "memory": None if memory is None else str(memory),
        "relabellers": [(name, _wrapped(name, each)) for name, each in (relabellers or {}).items()],
        "offline": offline,
        "episodes": episodes,
        "dataset": dataset,
        "steps": steps,
        "prefix": prefix,
    }


def _compared(
    methods: Sequence[str] | str | None, relabellers: Mapping[str, Relabeller] | None, usual: int
) -> list[str] | None:
    """The names of what is compared, relabellers last; ``None`` for what usually is."""
    own = list(relabellers or {})
    if methods == "all":
        return [*_names(), *own]
    if methods is None:
        return [*_names()[:usual], *own] if own else None
    names = methods.split(",") if isinstance(methods, str) else list(methods)
    return [*names, *(name for name in own if name not in names)]


def _names() -> list[str]:
    return [name for name, _ in _esper.methods()]


def _method(method: str | Relabeller) -> tuple[str, list[tuple[str, Any]]]:
    """The name of a method, and what it is where it comes from Python."""
    if isinstance(method, str):
        return method, []
    name = getattr(method, "__name__", "mine") if callable(method) else "mine"
    name = "mine" if name == "<lambda>" else name
    return name, [(name, _wrapped(name, method))]


def _wrapped(name: str, relabeller: Relabeller) -> Any:
    """A relabeller as Rust calls it: it is given our half of a data set."""
    if not callable(relabeller):
        return np.ascontiguousarray(relabeller, dtype=np.float32)
    function: Callable[[Dataset], ArrayLike] = relabeller

    def call(inner: _esper.Dataset) -> NDArray[np.float32]:
        labels = np.asarray(function(Dataset._of(inner)))
        if labels.dtype.kind not in "biuf":
            raise TypeError(f"{name} gave {labels.dtype} in place of one number a step")
        return np.ascontiguousarray(labels, dtype=np.float32)

    return call


def _document(config: str | os.PathLike[str] | None) -> str | None:
    return None if config is None else Path(config).read_text(encoding="utf-8")


def _pairs(settings: Mapping[str, Any] | None, more: Mapping[str, Any]) -> list[str]:
    """Settings as ``key=value``."""
    pairs = dict(settings or {})
    pairs.update({name.replace("__", "."): value for name, value in more.items()})
    return [f"{name}={_value(value)}" for name, value in pairs.items()]


def _value(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, np.generic):
        value = value.item()
    return repr(value) if isinstance(value, float) else str(value)
