"""Spaces: ours, as the JSON of a data set has them, and Gymnasium's.

Observations and actions are kept as rows of *cells*: small whole numbers for categories, ``float32`` for numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import DataError

__all__ = ["Space", "cells_of", "from_gymnasium", "shape_of", "to_gymnasium", "values_of"]

#: A space as a data set describes it: ``{"type": "Discrete", "n": 4}`` and the like.
Space = dict[str, Any]


def shape_of(space: Space) -> tuple[int, ...]:
    """The shape of one value."""
    kind = space["type"]
    if kind == "Discrete":
        return ()
    if kind in ("Box", "MultiBinary"):
        return tuple(space["shape"])
    return (width_of(space),)


def width_of(space: Space) -> int:
    """How many cells one value has."""
    kind = space["type"]
    if kind == "Discrete":
        return 1
    if kind == "MultiDiscrete":
        return len(space["nvec"])
    if kind == "Tuple":
        return sum(width_of(part) for part in space["spaces"])
    return int(np.prod(space["shape"], dtype=int))


def dtype_of(space: Space) -> np.dtype[Any]:
    """The type that cells are stored as: the smallest that holds every value."""
    kind = space["type"]
    if kind in ("Box", "Tuple"):
        return np.dtype(np.float32)
    most = {"Discrete": lambda: space["n"], "MultiDiscrete": lambda: max(space["nvec"], default=0)}
    return np.dtype(np.uint8 if most.get(kind, lambda: 2)() <= 256 else np.uint16)


def to_gymnasium(space: Space) -> Any:
    """The same space as Gymnasium has it."""
    from gymnasium import spaces

    kind = space["type"]
    if kind == "Discrete":
        return spaces.Discrete(space["n"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.asarray(space["nvec"]))
    if kind == "MultiBinary":
        shape = space["shape"]
        return spaces.MultiBinary(shape if len(shape) != 1 else shape[0])
    if kind == "Box":
        low, high = _bounds(space)
        return spaces.Box(low, high, dtype=np.float32)
    return spaces.Tuple([to_gymnasium(part) for part in space["spaces"]])


def _bounds(space: Space) -> tuple[np.ndarray, np.ndarray]:
    shape = tuple(space["shape"])
    bounds = space.get("bounds")
    if bounds is None:
        return np.full(shape, -np.inf, np.float32), np.full(shape, np.inf, np.float32)
    low = [-np.inf if pair[0] is None else pair[0] for pair in bounds]
    high = [np.inf if pair[1] is None else pair[1] for pair in bounds]
    return np.asarray(low, np.float32).reshape(shape), np.asarray(high, np.float32).reshape(shape)


def from_gymnasium(space: Any) -> Space:
    """One of Gymnasium's spaces as ours. Dictionaries and tuples become one row of cells, in Gymnasium's order."""
    from gymnasium import spaces

    if isinstance(space, dict):
        return space
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"type": "MultiDiscrete", "nvec": [int(n) for n in np.ravel(space.nvec)]}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "shape": [int(n) for n in space.shape]}
    if isinstance(space, spaces.Box):
        bounds: list[list[float | None]] | None = None
        low, high = np.ravel(space.low).astype(np.float32), np.ravel(space.high).astype(np.float32)
        if np.isfinite(low).any() or np.isfinite(high).any():
            pairs = zip(low, high, strict=True)
            bounds = [[float(at) if np.isfinite(at) else None for at in pair] for pair in pairs]
        made: Space = {"type": "Box", "shape": [int(n) for n in space.shape]}
        return made if bounds is None else {**made, "bounds": bounds}
    if isinstance(space, (spaces.Tuple, spaces.Dict)):
        parts = [from_gymnasium(part) for part in _parts(space)]
        flat = [inner for part in parts for inner in (part["spaces"] if part["type"] == "Tuple" else [part])]
        return {"type": "Tuple", "spaces": flat}
    raise DataError(f"{space} is a space of a kind that is not supported; wrap the environment so that it shows numbers")


def _parts(space: Any) -> list[Any]:
    return list(space.spaces.values() if hasattr(space.spaces, "values") else space.spaces)


def cells_of(space: Any, value: Any) -> np.ndarray:
    """One value of a Gymnasium space as a row of cells."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return np.asarray([int(value) - int(space.start)])
    if isinstance(space, spaces.MultiDiscrete):
        return np.ravel(value) - np.ravel(getattr(space, "start", 0))
    if isinstance(space, spaces.Tuple):
        return np.concatenate([cells_of(part, inner) for part, inner in zip(space.spaces, value, strict=True)]).astype(
            np.float32
        )
    if isinstance(space, spaces.Dict):
        return np.concatenate([cells_of(part, value[name]) for name, part in space.spaces.items()]).astype(np.float32)
    return np.ravel(value)


def values_of(space: Any, action: Any) -> Any:
    """An action that a policy chose, as a Gymnasium space has it."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return int(action) + int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return np.asarray(action).reshape(space.shape) + getattr(space, "start", 0)
    if isinstance(space, spaces.Box):
        return np.clip(np.asarray(action, space.dtype).reshape(space.shape), space.low, space.high)
    return np.asarray(action, space.dtype).reshape(space.shape)
