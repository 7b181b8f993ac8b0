"""Policies, and acting."""

from __future__ import annotations

import datetime
import json
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _esper
from .errors import PolicyError
from .spaces import Space, to_gymnasium

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Policy", "Session", "load"]


def load(path: str | os.PathLike[str], device: str = "cpu") -> Policy:
    """Loads a policy: of a run's folder, or of its ``policy.safetensors``, which is all that acting needs.

    >>> policy = esper.load("my-run")                                                           # doctest: +SKIP
    >>> policy.act(observation, level=0.9)                                                      # doctest: +SKIP
    1
    """
    return Policy._of(_esper.Policy.load(Path(path), device))


class Policy:
    """A policy that can be asked for a level, or for an average return.

    :meth:`act` is all that an evaluation loop needs::

        observation, _ = world.reset()
        policy.reset(level=0.9)                       # an episode begins, and is asked for this
        over = False
        while not over:
            action = policy.act(observation)
            observation, reward, terminated, truncated, _ = world.step(action)
            policy.reward(reward)                     # for policies that are told returns; others ignore it
            over = terminated or truncated

    Every thread has episodes of its own; :meth:`session` gives more of them. Policies can be pickled.
    """

    def __init__(self) -> None:
        raise TypeError("policies are made by esper.load, or by esper.train")

    @classmethod
    def _of(cls, inner: _esper.Policy) -> Policy:
        made = object.__new__(cls)
        made._inner = inner
        made._card = inner.card()
        made._local = threading.local()
        made._in_words = bool(made._card["fields"].get("action"))
        return made

    _inner: _esper.Policy
    _card: dict[str, Any]
    _local: threading.local
    _in_words: bool

    # ---- acting

    def act(
        self,
        observations: Any,
        level: float | None = None,
        target: float | None = None,
        *,
        greedy: bool = False,
        probabilities: bool = False,
        words: bool = True,
    ) -> Any:
        """The action for an observation, or actions for several.

        An array of the observation space's shape is one observation; with one more axis in front, it is one of each of several
        episodes side by side. Where columns have names (data from tables), an observation may be a mapping from them to values,
        several a list of mappings, a mapping to columns, or a data frame; columns that are left out count as missing.

        The first call begins an episode (or several), later ones go on with it, until :meth:`reset`, or until something else is
        asked for, or another number of observations is given. Histories matter to transformers and to what is drawn: what lies
        between levels whose promises are known is drawn from those two when an episode begins, so say when one does.

        :param level: what is asked for, from 0 to 1: 0.9 is what is better than nine tenths of what was seen from the same start.
            Chosen from the data alone if neither is given.
        :param target: an average return to ask for instead.
        :param greedy: take the most probable action in place of drawing one.
        :param probabilities: also give how likely actions were: ``(action, probabilities)``; ``None`` for them where the policy
            knows none.
        :param words: give actions in the log's own words, where they are known; else as numbers.
        """
        try:
            session = self._local.session
        except AttributeError:
            session = self._local.session = Session(self)
        return session.act(
            observations, level, target, greedy=greedy, probabilities=probabilities, words=words
        )

    def reset(
        self,
        places: ArrayLike | None = None,
        *,
        level: float | None = None,
        target: float | None = None,
        seed: int | None = None,
    ) -> None:
        """Ends the episodes of this thread: see :meth:`Session.reset`."""
        self._session().reset(places, level=level, target=target, seed=seed)

    def reward(self, reward: ArrayLike) -> None:
        """What the last action paid, or the last actions. Only policies that are told returns make use of it."""
        self._session().reward(reward)

    def _session(self) -> Session:
        if not hasattr(self._local, "session"):
            self._local.session = Session(self)
        return self._local.session

    def session(self, level: float | None = None, target: float | None = None, seed: int = 0) -> Session:
        """Episodes of their own, apart from those of :meth:`act`; of the same seed they draw the same."""
        return Session(self, level, target, seed)

    # ---- what is known of it

    @property
    def card(self) -> dict[str, Any]:
        """What there is to know about it: method, settings, spaces, names of columns, condition."""
        return self._card

    @property
    def method(self) -> str:
        """The method that it was learned by."""
        return self._card["method"]

    @property
    def condition(self) -> str:
        """What it is told: ``"return"``, ``"level"`` or ``"step-level"``."""
        return self._card["condition"]

    @property
    def has_targets(self) -> bool:
        """Whether it can be asked for a level or a return."""
        return self._card["has_targets"]

    @property
    def observation_space(self) -> Space:
        """What it sees."""
        return self._card["observation_space"]

    @property
    def action_space(self) -> Space:
        """What it does."""
        return self._card["action_space"]

    def gymnasium_spaces(self) -> tuple[Any, Any]:
        """Observation and action space as Gymnasium has them."""
        return to_gymnasium(self.observation_space), to_gymnasium(self.action_space)

    def promise(self, level: float | None = None, target: float | None = None) -> dict[str, Any] | None:
        """What is promised for a level or a target (for what the data alone would choose, if neither is given): ``level``,
        ``target``, ``promise``, from ``low`` to ``high`` with nine chances of ten, and whether the data speaks about it
        (``supported``). ``None`` for policies that cannot be asked."""
        return self._inner.promised(level, target)

    @property
    def promises(self) -> list[dict[str, Any]]:
        """What every level promises; empty for policies that are not told levels."""
        return self._inner.promises()

    # ---- keeping it

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Writes the one file that acting needs."""
        self._inner.write(Path(path))
        return Path(path)

    def to_onnx(self, path: str | os.PathLike[str]) -> Path:
        """Writes an ONNX model, for whoever acts without this package (MLP policies)."""
        Path(path).write_bytes(self._inner.to_onnx())
        return Path(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._inner.to_bytes(),)

    def __repr__(self) -> str:
        return f"<esper.Policy: {self._card['kind']} by {self.method}, told {self.condition}>"


def _unpickled(content: bytes) -> Policy:
    return Policy._of(_esper.Policy.from_bytes(content, "cpu"))


class Session:
    """Episodes that a policy acts in, one or several side by side, with what it remembers of them."""

    def __init__(
        self, policy: Policy, level: float | None = None, target: float | None = None, seed: int = 0
    ) -> None:
        #: The policy.
        self.policy = policy
        self._inner = _esper.Session(policy._inner, level, target, seed)
        if (level is not None or target is not None) and not policy.has_targets:
            _cannot_be_asked(policy)

    def act(
        self,
        observations: Any,
        level: float | None = None,
        target: float | None = None,
        *,
        greedy: bool = False,
        probabilities: bool = False,
        words: bool = True,
    ) -> Any:
        """Actions, as :meth:`Policy.act` gives them."""
        if type(observations) is np.ndarray and observations.dtype.kind in "biuf":
            actions, likely = self._inner.act(observations, level, target, greedy, words, probabilities)
        else:
            actions, likely = self._act_on(observations, level, target, greedy, words, probabilities)
        return (actions, likely) if probabilities else actions

    def _act_on(self, given: Any, level: Any, target: Any, greedy: bool, words: bool, likely: bool) -> Any:
        """Acts on whatever is no array of numbers."""
        if isinstance(given, (int, float, np.generic)) and not isinstance(given, np.str_):
            return self._inner.act(given, level, target, greedy, words, likely)
        rows, batch = _rows(given)
        if rows is None:
            return self._inner.act(np.asarray(given), level, target, greedy, words, likely)
        text = json.dumps([_without_nan(row) for row in rows], default=_plain)
        actions, found, said = self._inner.act_on_json(text, batch, level, target, greedy, words, likely)
        for warning in dict.fromkeys(said):
            warnings.warn(warning, stacklevel=4)
        return actions, found

    def reset(
        self,
        places: ArrayLike | None = None,
        *,
        level: float | None = None,
        target: float | None = None,
        seed: int | None = None,
    ) -> None:
        """Ends episodes; the next observations begin others.

        :param places: end only some of several side by side, by a mask (such as ``terminated | truncated`` of a vector
            environment) or by number.
        :param level: what the next ones are asked for; as before if nothing is said.
        :param target: likewise.
        :param seed: what is drawn follows from it, and from how many episodes began since.
        """
        if (level is not None or target is not None) and not self.policy.has_targets:
            _cannot_be_asked(self.policy)
        chosen = None
        if places is not None:
            array = np.asarray(places)
            chosen = [int(at) for at in (np.flatnonzero(array) if array.dtype == bool else array.ravel())]
        self._inner.reset(chosen, level, target, seed)

    def reward(self, reward: ArrayLike) -> None:
        """What the last action paid, or the last actions."""
        self._inner.reward([float(each) for each in np.ravel(reward)])


def _cannot_be_asked(policy: Policy) -> None:
    warnings.warn(
        f"a policy of {policy.method} cannot be asked for a level or a target; that is ignored", stacklevel=3
    )


def _rows(given: Any) -> tuple[list[Any] | None, bool]:
    """Observations by the names of columns, one a row, and whether they are several; ``None`` where they are no such thing."""
    if isinstance(given, Mapping):
        columns = {name: _column(value) for name, value in given.items()}
        sizes = {len(value) for value in columns.values() if value is not None}
        if not sizes:
            return [dict(given)], False
        if len(sizes) > 1 or None in columns.values():
            raise PolicyError("columns of several observations have to be equally long")
        names = list(columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)], True  # type: ignore[arg-type]
    if hasattr(given, "to_dicts"):
        return given.to_dicts(), True
    if hasattr(given, "to_dict") and hasattr(given, "columns"):
        return given.to_dict("records"), True
    if hasattr(given, "to_dict") and hasattr(given, "index"):
        return [given.to_dict()], False
    if isinstance(given, str):
        return [given], False
    if isinstance(given, Sequence) and any(isinstance(each, Mapping) for each in given):
        return list(given), True
    if isinstance(given, Sequence) and any(isinstance(each, str) or each is None for each in given):
        return [list(given)], False
    return None, False


def _column(value: Any) -> list[Any] | None:
    """A column of values; ``None`` for a single one."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        return None
    return value.tolist() if hasattr(value, "tolist") else list(value)


def _without_nan(row: Any) -> Any:
    """NaN is how pandas says that a value is missing; JSON has no such number."""
    if isinstance(row, Mapping):
        return {name: None if value != value else value for name, value in row.items() if _is_said(value)} | {
            name: None for name, value in row.items() if not _is_said(value)
        }
    return row


def _is_said(value: Any) -> bool:
    return type(value).__name__ not in ("NAType", "NaTType")


def _plain(value: Any) -> Any:
    """Values that JSON does not have."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    return str(value)
