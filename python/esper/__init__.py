"""Decisions from logged data in an uncertain world: ask for an average return, and get it.

>>> import esper
>>> data = esper.Dataset.read("log.parquet")                     # or .from_arrays, .from_pandas, .from_minari, esper.collect
>>> run = esper.train(data)                                      # labels, what levels promise, a policy
>>> run.promises, run.labels
>>> policy = run.policy                                          # or esper.load("my-run")
>>> policy.act(observation, level=0.9)

``esper.run`` compares methods and seeds, ``esper.sweep`` does so with many settings and data sets, on Ray if there is a cluster;
``esper.evaluate`` tries a policy in a world, ``esper.collect`` makes data in one.
The built-in tasks are Gymnasium environments: ``gymnasium.make("esper/ConnectFour-v0")``.
"""

from __future__ import annotations

from ._esper import __version__, set_threads, threads
from .data import Dataset
from .errors import (
    BusyError,
    DataError,
    EsperError,
    FileError,
    MissingFileError,
    PolicyError,
    RunError,
    SettingsError,
    WorldError,
)
from .learning import Report, Results, Run, methods, open_run, run, train
from .policy import Policy, Session, load
from .sweep import Sweep, sweep
from .worlds import collect, evaluate, tasks

__all__ = [
    "BusyError",
    "DataError",
    "Dataset",
    "EsperError",
    "FileError",
    "MissingFileError",
    "Policy",
    "PolicyError",
    "Report",
    "Results",
    "Run",
    "RunError",
    "Session",
    "SettingsError",
    "Sweep",
    "WorldError",
    "__version__",
    "collect",
    "evaluate",
    "load",
    "methods",
    "open_run",
    "run",
    "set_threads",
    "sweep",
    "tasks",
    "threads",
    "train",
]

try:
    from .envs import register as _register
except ImportError:
    # Gymnasium is not there: nobody can ask for its environments.
    pass
else:
    _register()
