"""What tests share: small data and small runs."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

import esper
from esper._progress import Listener

# Whoever starts the tests in the background of a shell has them ignore Ctrl-C, and all that they start with them. Before any of
# that is started.
signal.signal(signal.SIGINT, signal.default_int_handler)

#: A training that takes a moment.
TINY = {"cluster.steps": 60, "returns.steps": 60, "mlp.steps": 150, "mlp.hidden": 32, "promise.steps": 60}


class CtrlC(Listener):
    """Presses Ctrl-C as soon as something is learned: from another thread, as a terminal does."""

    def __init__(self) -> None:
        self.pressed = False

    def progress(self, run: int, phase: str, done: int, total: int) -> None:
        if done > 0 and not self.pressed:
            self.pressed = True
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()


@pytest.fixture
def ctrl_c() -> CtrlC:
    return CtrlC()


@pytest.fixture(scope="session")
def gambling() -> esper.Dataset:
    return esper.collect("gambling", steps=3_000, seed=1)


@pytest.fixture(scope="session")
def trained(gambling: esper.Dataset, tmp_path_factory: pytest.TempPathFactory) -> esper.Run:
    out = tmp_path_factory.mktemp("runs") / "esper"
    return esper.train(gambling, seed=3, out=out, condition="return", progress=False, settings=TINY)


@pytest.fixture(scope="session")
def patients_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hundred patients: a word to act with, an age that is missing now and then, an outcome at the end."""
    rng = np.random.default_rng(0)
    lines = ["patient,day,age,ward,treatment,outcome"]
    for patient in range(200):
        days = int(rng.integers(1, 4))
        for day in range(days):
            age = "" if rng.random() < 0.1 else f"{rng.integers(20, 90)}.5"
            drug = rng.random() < 0.5
            outcome = f"{int(drug) + rng.normal():.2f}" if day == days - 1 else "0"
            lines.append(f"p{patient},{day},{age},{'AB'[patient % 2]},{'drug' if drug else 'none'},{outcome}")
    path = tmp_path_factory.mktemp("tables") / "patients.csv"
    path.write_text("\n".join(lines) + "\n")
    return path
