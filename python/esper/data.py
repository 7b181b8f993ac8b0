"""Data sets: logged episodes, from wherever they are."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _esper
from ._html import table
from .errors import DataError
from .spaces import Space, dtype_of, from_gymnasium, to_gymnasium, width_of

if TYPE_CHECKING:
    import pandas
    import polars
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Dataset"]


class Dataset:
    """Logged episodes: what was seen, what was done, what it paid.

    An episode of T steps has T actions and rewards and T+1 observations: what the last action led to is kept. A data set
    never changes; :meth:`select` gives views that share its memory.

    >>> import numpy as np
    >>> data = Dataset.from_arrays(
    ...     observations=np.array([0, 1, 2, 0]),     # whole numbers are categories, real numbers are numbers
    ...     actions=np.array([1, 1, 1, 0]),
    ...     rewards=np.array([0.0, 0.0, 1.0, 0.0]),
    ...     episode_ids=np.array([7, 7, 7, 8]),
    ... )
    >>> data
    <esper.Dataset: 2 episodes, 4 steps, observations Discrete(3), actions Discrete(2)>
    >>> data.returns
    array([1., 0.])
    """

    __slots__ = ("_inner", "_metadata", "notes", "path")

    _inner: _esper.Dataset
    _metadata: dict[str, Any]
    #: Where it was read from; ``None`` for what was made in memory.
    path: Path | None
    #: What there is to say about how a table or another tool's format was understood.
    notes: list[str]

    def __init__(self) -> None:
        raise TypeError("data sets are made by Dataset.read, .from_arrays, .from_pandas and the like, or by esper.collect")

    @classmethod
    def _of(cls, inner: _esper.Dataset, path: Path | None = None, notes: Iterable[str] = ()) -> Dataset:
        made = object.__new__(cls)
        made._inner = inner
        made._metadata = inner.metadata()
        made.path = path
        made.notes = list(notes)
        return made

    # ---- where data comes from

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        memory: str | int | None = None,
        beside: str | os.PathLike[str] | None = None,
    ) -> Dataset:
        """Reads a data set: esper's own file, those of Minari, D4RL, d3rlpy, RLlib and RLDS, or a table (CSV, JSON lines,
        Parquet, a folder of part files) whose columns are not in doubt. Where they are, read it with pandas or polars
        and use :meth:`from_pandas`, or run ``esper import``.

        :param memory: take at most so much memory, as in ``"2GB"``: of a file of esper's own that is larger, what does not fit stays
            on disk, in files without a name.
        :param beside: the folder that those are made in; the current one if nothing is said.
        """
        if memory is not None:
            inner = _esper.Dataset.read_within(Path(path), str(memory), Path(beside or "."))
            return cls._of(inner, Path(path))
        inner, notes = _esper.Dataset.open(Path(path))
        return cls._of(inner, Path(path), notes)

    @classmethod
    def from_arrays(
        cls,
        observations: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        *,
        episode_ids: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        terminations: ArrayLike | None = None,
        truncations: ArrayLike | None = None,
        next_observations: ArrayLike | None = None,
        final_observations: ArrayLike | None = None,
        behaviours: Sequence[str] | ArrayLike | None = None,
        observation_space: Any | None = None,
        action_space: Any | None = None,
        task: str | None = None,
    ) -> Dataset:
        """Puts a data set together from NumPy arrays with one row a step.

        Whole numbers and truths are categories, from 0 on; real numbers are numbers. Arrays that are ``uint8``, ``uint16`` or
        ``float32`` and contiguous are copied once, into the data set, others are converted first.

        :param observations: ``[steps, …]``, what every step acted on.
        :param actions: ``[steps, …]``.
        :param rewards: ``[steps]``.
        :param episode_ids: ``[steps]``, anything that is the same within an episode. Episodes stay in the order of their first
            step, and steps in theirs.
        :param lengths: ``[episodes]``, in place of ids.
        :param terminations: whether the world came to its end, ``[steps]`` or ``[episodes]``. Without ids and lengths, an
            episode ends where ``terminations`` or ``truncations`` say so.
        :param truncations: whether an episode was cut, likewise. Where neither is given, every episode came to its end; an
            episode at the very end of which nothing is said was cut.
        :param next_observations: ``[steps, …]``, what every action led to; only the last of every episode is kept.
        :param final_observations: ``[episodes, …]``, the same of last actions alone. Where neither is given, the last
            observation of an episode stands for what followed it.
        :param behaviours: who decided, by name, ``[episodes]`` or ``[steps]``: for statistics, never shown to a learner.
        :param observation_space: a Gymnasium space, or a dictionary as :attr:`observation_space` is; else it is found by
            what is there.
        :param action_space: likewise.
        :param task: the built-in task that the data is of: policies are then tried in its world.
        """
        reward = np.ascontiguousarray(rewards, dtype=np.float32)
        if reward.ndim != 1:
            raise DataError(f"rewards have the shape {list(reward.shape)}; there is one a step")
        steps = len(reward)
        if steps == 0:
            raise DataError("there are no episodes")
        seen_space = None if observation_space is None else from_gymnasium(observation_space)
        done_space = None if action_space is None else from_gymnasium(action_space)
        seen, seen_shape = _cells("observations", observations, steps, seen_space)
        done, done_shape = _cells("actions", actions, steps, done_space)
        order, last = _episodes(steps, episode_ids, lengths, terminations, truncations)
        if order is not None:
            seen, done, reward = seen[order], done[order], reward[order]
        terminated, truncated = _ends(last, order, steps, terminations, truncations)
        if final_observations is not None:
            finals, _ = _cells("final_observations", final_observations, len(last), seen_space, seen.dtype)
        elif next_observations is not None:
            after, _ = _cells("next_observations", next_observations, steps, seen_space, seen.dtype)
            finals = after[last if order is None else order[last]]
        else:
            finals = seen[last]
        if finals.shape[1] != seen.shape[1]:
            raise DataError(f"final observations have {finals.shape[1]} cells, the others {seen.shape[1]}")
        names, made_by = _behaviours(behaviours, last, order, steps)
        metadata = _metadata_json(seen, done, finals, seen_shape, done_shape, seen_space, done_space, task)
        inner = _esper.Dataset.from_columns(
            seen,
            done,
            reward,
            np.ascontiguousarray(last, np.int64),
            np.ascontiguousarray(terminated, bool),
            np.ascontiguousarray(truncated, bool),
            np.ascontiguousarray(finals),
            metadata,
            names,
            made_by,
        )
        return cls._of(inner)

    @classmethod
    def from_arrow(cls, table: Any, *, name: str = "the table", **columns: Any) -> Dataset:
        """Reads a table of anything that speaks Arrow's C stream interface (pyarrow, polars, DuckDB, pandas): one row a step.

        Columns are found by their usual names (``episode``, ``action``, ``reward``, …), or named here, as in a mapping file of
        ``esper import``: ``episode``, ``time``, ``observation`` (a list), ``action`` (a list), ``reward``, ``reward_per``
        (``"step"`` or ``"episode"``), ``end``, ``cut``, ``behaviour``, ``final_observation`` (a list), ``ignore`` (a list) and
        ``kinds`` (``{"ward": "category"}``). An empty name says that there is no such column. Words become categories, dates
        days, missing values are filled and marked; the names are kept, so that policies can be asked and answer in them.
        """
        stream = table
        if not hasattr(table, "__arrow_c_stream__"):
            import pyarrow

            stream = pyarrow.table(table)
        mapping = {key: value for key, value in columns.items() if value is not None}
        for key in ("observation", "action", "final_observation", "ignore"):
            if isinstance(mapping.get(key), str):
                mapping[key] = [mapping[key]]
        try:
            inner, notes = _esper.Dataset.from_arrow(stream, json.dumps(mapping), name)
        except DataError as error:
            raise DataError(_in_python(str(error))) from None
        return cls._of(inner, None, [_in_python(note) for note in notes])

    @classmethod
    def from_pandas(cls, frame: pandas.DataFrame, **columns: Any) -> Dataset:
        """Reads a pandas data frame with one row a step; its index is left out. See :meth:`from_arrow`.

        >>> import pandas as pd
        >>> log = pd.DataFrame({
        ...     "patient": ["a", "a", "b"], "age": [40.0, 41.0, None], "treatment": ["drug", "none", "drug"],
        ...     "outcome": [0.0, 1.0, 0.0],
        ... })
        >>> data = Dataset.from_pandas(log, episode="patient", action="treatment", reward="outcome")
        >>> data.action_words
        ['drug', 'none']
        """
        columns.setdefault("name", "the data frame")
        try:
            import pyarrow
        except ImportError as error:
            raise ImportError("pandas' data frames are read through pyarrow: pip install pyarrow") from error
        return cls.from_arrow(pyarrow.Table.from_pandas(frame, preserve_index=False), **columns)

    @classmethod
    def from_polars(cls, frame: polars.DataFrame, **columns: Any) -> Dataset:
        """Reads a polars data frame with one row a step. See :meth:`from_arrow`."""
        columns.setdefault("name", "the data frame")
        return cls.from_arrow(frame, **columns)

    @classmethod
    def from_minari(cls, dataset: Any, *, download: bool = False) -> Dataset:
        """Reads a Minari data set: one of ``minari.load_dataset``, its id, or its folder."""
        if isinstance(dataset, (str, os.PathLike)) and not Path(dataset).exists():
            import minari

            dataset = minari.load_dataset(str(dataset), download=download)
        if not isinstance(dataset, (str, os.PathLike)):
            dataset = dataset.storage.data_path
        return cls.read(dataset)

    # ---- where data goes

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes esper's own file (Parquet, one row a step); a table where the name ends in ``.csv``."""
        path = Path(path)
        if path.suffix == ".csv":
            self._inner.write_csv(path, overwrite)
        else:
            self._inner.write(path, overwrite)
        return path

    def to_minari(self, dataset_id: str | None = None, *, folder: str | os.PathLike[str] | None = None) -> Any:
        """Writes a Minari data set, and gives it as Minari loads it.

        :param dataset_id: the name to keep it under among Minari's own data sets, as in ``"mine/log-v0"``.
        :param folder: a folder to write it to instead.
        """
        import minari

        if (dataset_id is None) == (folder is None):
            raise DataError("say where to: to_minari('mine/log-v0'), or to_minari(folder='…')")
        if folder is None:
            from minari.storage.local import get_dataset_path

            target = Path(get_dataset_path(str(dataset_id)))
            target.parent.mkdir(parents=True, exist_ok=True)
        else:
            target = Path(folder)
        self._inner.write_minari(target)
        return minari.MinariDataset(target / "data")

    # ---- what it holds

    @property
    def episodes(self) -> int:
        """The number of episodes."""
        return self._inner.episodes

    @property
    def steps(self) -> int:
        """The number of steps in all episodes."""
        return self._inner.steps

    def __len__(self) -> int:
        return self._inner.episodes

    @property
    def task(self) -> str | None:
        """The built-in task that it is of, if it is one's."""
        return self._metadata["task"]

    @property
    def observation_space(self) -> Space:
        """What an observation looks like: ``{"type": "Discrete", "n": 4}`` and the like."""
        return self._metadata["observation_space"]

    @property
    def action_space(self) -> Space:
        """What an action looks like."""
        return self._metadata["action_space"]

    @property
    def fields(self) -> dict[str, list[dict[str, Any]]]:
        """What cells of observations and actions are called and hold, where that is known."""
        return self._metadata.get("fields", {})

    @property
    def action_words(self) -> list[Any] | None:
        """The words of an action's categories, where it is one column of words."""
        of_action = self.fields.get("action", [])
        return of_action[0].get("values") if len(of_action) == 1 else None

    def gymnasium_spaces(self) -> tuple[Any, Any]:
        """Observation and action space as Gymnasium has them."""
        return to_gymnasium(self.observation_space), to_gymnasium(self.action_space)

    @property
    def behaviours(self) -> list[str]:
        """The names of who decided; empty where nothing is known."""
        return self._inner.behaviours

    @property
    def behaviour_of(self) -> NDArray[np.int64]:
        """For every episode an index into :attr:`behaviours`; -1 where nothing is known."""
        return self._inner.made_by()

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Steps of every episode."""
        return self._inner.lengths()

    @property
    def returns(self) -> NDArray[np.float64]:
        """The return of every episode: the sum of its rewards."""
        return self._inner.returns()

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """For every episode whether the world came to its end."""
        return self._inner.terminated()

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """For every episode whether it was cut."""
        return self._inner.truncated()

    @property
    def observations(self) -> NDArray[Any]:
        """What every step acted on, ``[steps, …]``; a copy, as all arrays of a data set."""
        return self._inner.observations(0)

    @property
    def next_observations(self) -> NDArray[Any]:
        """What every action led to, ``[steps, …]``."""
        return self._inner.observations(1)

    @property
    def final_observations(self) -> NDArray[Any]:
        """What last actions led to, ``[episodes, …]``."""
        return self._inner.finals()

    @property
    def actions(self) -> NDArray[Any]:
        """What was done, ``[steps, …]``."""
        return self._inner.actions()

    @property
    def rewards(self) -> NDArray[np.float32]:
        """What it paid, ``[steps]``."""
        return self._inner.rewards()

    @property
    def episode_ids(self) -> NDArray[np.int64]:
        """For every step the number of its episode."""
        return np.repeat(np.arange(self.episodes), self.lengths)

    @property
    def timesteps(self) -> NDArray[np.int64]:
        """For every step how many came before it in its episode."""
        lengths = self.lengths
        starts = np.cumsum(lengths) - lengths
        return np.arange(self.steps) - np.repeat(starts, lengths)

    def returns_to_go(self, discount: float = 1.0) -> NDArray[np.float32]:
        """For every step the return from there to the end of its episode."""
        return self._inner.returns_to_go(discount)

    def info(self) -> dict[str, Any]:
        """What ``esper info --json`` prints: sizes, returns, behaviours, a histogram, what looks wrong."""
        return self._inner.info()

    def select(self, episodes: ArrayLike) -> Dataset:
        """A view of some episodes, by number or by a mask; nothing is copied."""
        chosen = np.asarray(episodes)
        if chosen.dtype == bool:
            if chosen.shape != (self.episodes,):
                raise DataError(f"a mask of shape {list(chosen.shape)} for {self.episodes} episodes")
            chosen = np.flatnonzero(chosen)
        return Dataset._of(self._inner.select([int(at) for at in chosen.ravel()]), self.path)

    def first_steps(self, steps: int) -> Dataset:
        """A view of the first episodes, as many as have at least so many steps together."""
        return Dataset._of(self._inner.first_steps(steps), self.path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dataset) and self._inner == other._inner

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        task = f"{self.task}, " if self.task else ""
        return (
            f"<esper.Dataset: {task}{_count(self.episodes, 'episode')}, {_count(self.steps, 'step')}, "
            f"observations {_named(self.observation_space)}, actions {_named(self.action_space)}>"
        )

    def _repr_html_(self) -> str:
        info = self.info()
        whole = {"name": "all", **{key: info[key] for key in ("episodes", "steps", "mean_return", "mean_length")}}
        rows = [
            (each["name"], each["episodes"], each["steps"], f"{each['mean_return']:.3f}", f"{each['mean_length']:.2f}")
            for each in [*info["behaviours"], whole]
        ]
        columns = ("behaviour", "episodes", "steps", "mean return", "mean length")
        return table(repr(self)[1:-1], rows, columns)

    def __reduce__(self) -> tuple[Any, ...]:
        columns = {
            "observations": self.observations.reshape(self.steps, -1),
            "actions": self.actions.reshape(self.steps, -1),
            "finals": self.final_observations.reshape(self.episodes, -1),
            "rewards": self.rewards,
            "last": np.cumsum(self.lengths) - 1,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "made_by": self.behaviour_of if self.behaviours else None,
        }
        return _rebuilt, (columns, json.dumps(self._metadata), self.behaviours, self.path)


def _rebuilt(columns: dict[str, Any], metadata: str, behaviours: list[str], path: Path | None) -> Dataset:
    """A data set that was pickled."""
    inner = _esper.Dataset.from_columns(
        columns["observations"],
        columns["actions"],
        columns["rewards"],
        columns["last"],
        columns["terminated"],
        columns["truncated"],
        columns["finals"],
        metadata,
        behaviours,
        columns["made_by"],
    )
    return Dataset._of(inner, path)


def _named(space: Space) -> str:
    kind = space["type"]
    if kind == "Discrete":
        return f"Discrete({space['n']})"
    if kind == "MultiDiscrete":
        nvec = space["nvec"]
        same = len(set(nvec)) == 1 and len(nvec) > 1
        return f"MultiDiscrete({nvec[0]}, {len(nvec)} times)" if same else f"MultiDiscrete({nvec})"
    if kind == "Tuple":
        return "Tuple(" + ", ".join(_named(part) for part in space["spaces"]) + ")"
    return f"{kind}({', '.join(map(str, space['shape']))})"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _in_python(words: str) -> str:
    """What the program says about its options, as arguments."""
    words = re.sub(r", in `esper import [^`]*`", "", words)
    words = words.replace("--map", "mapping").replace("--reward-per step", 'reward_per="step"')
    return re.sub(r"--([a-z][a-z-]*)", lambda found: found[1].replace("-", "_") + "=", words)


def _cells(
    name: str, values: ArrayLike, rows: int, space: Space | None, dtype: np.dtype[Any] | None = None
) -> tuple[np.ndarray, tuple[int, ...]]:
    """Values as rows of cells, ``[rows, cells]``, and the shape of one value."""
    array = np.asarray(values)
    if array.ndim == 0 or len(array) != rows:
        found = 0 if array.ndim == 0 else len(array)
        raise DataError(f"{name} have {found} rows where there are {rows}")
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"{name} are of type {array.dtype}; they have to be numbers (Dataset.from_pandas makes categories of words)"
        )
    shape = array.shape[1:]
    if space is not None:
        dtype = dtype_of(space)
        if width_of(space) != int(np.prod(shape, dtype=int)):
            raise DataError(f"{name} have the shape {list(shape)}, which does not fit {_named(space)}")
    elif dtype is None:
        dtype = _category_type(name, array) if array.dtype.kind in "biu" else np.dtype(np.float32)
    if dtype.kind == "u" and array.dtype != dtype:
        _check_categories(name, array, dtype)
    return np.ascontiguousarray(array.reshape(rows, -1), dtype=dtype), shape


def _category_type(name: str, array: np.ndarray) -> np.dtype[Any]:
    if array.dtype in (np.uint8, np.uint16):
        return array.dtype
    if array.dtype == bool:
        return np.dtype(np.uint8)
    return np.dtype(np.uint8 if array.size == 0 or array.max() < 256 else np.uint16)


def _check_categories(name: str, array: np.ndarray, dtype: np.dtype[Any]) -> None:
    if array.size == 0 or array.dtype == bool:
        return
    low, high = array.min(), array.max()
    most = np.iinfo(dtype).max
    if low < 0 or high > most or (array.dtype.kind == "f" and not np.equal(array, np.floor(array)).all()):
        raise DataError(
            f"{name} are from {low} to {high}; categories are whole numbers from 0 to {most}, and what is a number rather "
            "than a category has to be real (array.astype('float32'))"
        )


def _episodes(
    steps: int,
    ids: ArrayLike | None,
    lengths: ArrayLike | None,
    terminations: ArrayLike | None,
    truncations: ArrayLike | None,
) -> tuple[np.ndarray | None, np.ndarray]:
    """The order of steps, if it is to be another, and the row of every episode's last step."""
    if ids is not None and lengths is not None:
        raise DataError("episode_ids and lengths are given; one of them is enough")
    if ids is not None:
        names = np.asarray(ids)
        if names.shape != (steps,):
            raise DataError(f"episode_ids have the shape {list(names.shape)}; there is one a step, {steps}")
        changes = np.flatnonzero(names[1:] != names[:-1])
        last = np.append(changes, steps - 1)
        _, first, inverse = np.unique(names[last], return_index=True, return_inverse=True)
        if len(first) == len(last):
            return None, last
        # Episodes come in pieces: they are put together, in the order of their first.
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first, kind="stable")] = np.arange(len(first))
        of_step = np.repeat(rank[np.ravel(inverse)], np.diff(np.append(-1, last)))
        order = np.argsort(of_step, kind="stable")
        return order, np.cumsum(np.bincount(of_step)) - 1
    if lengths is not None:
        sizes = np.asarray(lengths, np.int64).ravel()
        if (sizes < 1).any() or int(sizes.sum()) != steps:
            raise DataError(f"lengths add up to {int(sizes.sum())}, and there are {steps} steps; every episode has at least one")
        return None, np.cumsum(sizes) - 1
    if terminations is None and truncations is None:
        raise DataError("where do episodes end? Give episode_ids, lengths, or terminations and truncations")
    over = np.zeros(steps, bool)
    for name, flags in (("terminations", terminations), ("truncations", truncations)):
        if flags is not None:
            over |= _flags(name, flags, steps)
    last = np.flatnonzero(over)
    return None, last if over[-1] else np.append(last, steps - 1)


def _flags(name: str, flags: ArrayLike, steps: int) -> np.ndarray:
    array = np.asarray(flags).astype(bool)
    if array.shape != (steps,):
        raise DataError(f"{name} have the shape {list(array.shape)}; there is one a step, {steps}")
    return array


def _ends(
    last: np.ndarray,
    order: np.ndarray | None,
    steps: int,
    terminations: ArrayLike | None,
    truncations: ArrayLike | None,
) -> tuple[np.ndarray, np.ndarray]:
    """How episodes ended."""

    def of(name: str, flags: ArrayLike) -> np.ndarray:
        array = np.asarray(flags).astype(bool)
        if array.shape == (len(last),) and len(last) != steps:
            return array
        array = _flags(name, array, steps)
        return array[last if order is None else order[last]]

    if terminations is None and truncations is None:
        return np.ones(len(last), bool), np.zeros(len(last), bool)
    if truncations is None:
        terminated = of("terminations", terminations)  # type: ignore[arg-type]
        return terminated, ~terminated
    truncated = of("truncations", truncations)
    if terminations is None:
        return ~truncated, truncated
    terminated = of("terminations", terminations)
    # Where a log simply stops, the episode was cut there.
    return terminated, truncated | ~terminated


def _behaviours(
    behaviours: Sequence[str] | ArrayLike | None, last: np.ndarray, order: np.ndarray | None, steps: int
) -> tuple[list[str], np.ndarray | None]:
    if behaviours is None:
        return [], None
    names = np.asarray(behaviours).astype(str)
    if names.shape == (steps,) and len(last) != steps:
        names = names[last if order is None else order[last]]
    if names.shape != (len(last),):
        raise DataError(f"behaviours have the shape {list(names.shape)}; there is one an episode, {len(last)}, or one a step")
    words, first, inverse = np.unique(names, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    ordered = [str(words[at]) for at in np.argsort(first)]
    return ordered, np.ascontiguousarray(rank[np.ravel(inverse)], np.int64)


def _metadata_json(
    seen: np.ndarray,
    done: np.ndarray,
    finals: np.ndarray,
    seen_shape: tuple[int, ...],
    done_shape: tuple[int, ...],
    seen_space: Space | None,
    done_space: Space | None,
    task: str | None,
) -> str | None:
    """Spaces and task, where something is known that Rust does not find by itself."""
    if seen_space is None and done_space is None and task is None and len(seen_shape) < 2 and len(done_shape) < 2:
        return None

    def found(cells: list[np.ndarray], shape: tuple[int, ...]) -> Space:
        if cells[0].dtype == np.float32:
            return {"type": "Box", "shape": list(shape) or [1]}
        nvec = np.max([part.max(axis=0) for part in cells if len(part)], axis=0).astype(int) + 1
        if len(nvec) == 1:
            return {"type": "Discrete", "n": int(nvec[0])}
        return {"type": "MultiDiscrete", "nvec": [int(n) for n in nvec]}

    metadata: Mapping[str, Any] = {
        "task": task,
        "task_version": _esper.task_info(task)["version"] if task else None,
        "seed": None,
        "observation_space": seen_space or found([seen, finals], seen_shape),
        "action_space": done_space or found([done], done_shape),
    }
    return json.dumps(metadata)
