"""Progress on a terminal or in a notebook: tqdm's bars where there is tqdm, else a plain line."""

from __future__ import annotations

import sys
import time
from typing import Any

__all__ = ["Listener", "listener"]


class Listener:
    """Hears how far work is; what Rust calls. This one says nothing."""

    def planned(self, names: list[str]) -> None: ...

    def progress(self, run: int, phase: str, done: int, total: int) -> None: ...

    def finished(self, run: int) -> None: ...

    def failed(self, run: int, error: str) -> None: ...

    def close(self) -> None: ...


class _Bars(Listener):
    """A bar for every phase of a single run; of several runs one bar for all, and one for what is under way."""

    def __init__(self, name: str) -> None:
        from tqdm.auto import tqdm

        self._tqdm = tqdm
        self._name = name
        self._names: list[str] = []
        self._all: Any = None
        self._bars: dict[int, Any] = {}
        self._phases: dict[int, str] = {}

    def planned(self, names: list[str]) -> None:
        self._names = names
        if len(names) > 1:
            self._all = self._tqdm(total=len(names), desc=self._name, unit="run", leave=True)

    def progress(self, run: int, phase: str, done: int, total: int) -> None:
        bar = self._bars.get(run)
        if bar is None or self._phases[run] != phase or bar.total != total:
            if bar is not None:
                bar.close()
            name = self._names[run] if 0 <= run < len(self._names) else self._name
            bar = self._tqdm(total=total, desc=f"{name}: {phase}", leave=False, dynamic_ncols=True)
            self._bars[run], self._phases[run] = bar, phase
        bar.update(done - bar.n)

    def finished(self, run: int) -> None:
        bar = self._bars.pop(run, None)
        if bar is not None:
            bar.close()
        if self._all is not None:
            self._all.update(1)

    def failed(self, run: int, error: str) -> None:
        self._tqdm.write(f"{self._names[run]} failed: {error}", file=sys.stderr)
        self.finished(run)

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()
        self._bars.clear()
        if self._all is not None:
            self._all.close()


class _Line(Listener):
    """One line on standard error, written over; nothing where that is no terminal."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._names: list[str] = []
        self._width = 0
        self._phase = ("", 0.0)

    def planned(self, names: list[str]) -> None:
        self._names = names

    def progress(self, run: int, phase: str, done: int, total: int) -> None:
        name = self._names[run] if 0 <= run < len(self._names) else self._name
        now = time.monotonic()
        key = f"{name}: {phase}"
        if self._phase[0] != key:
            self._phase = (key, now)
        rate = done / (now - self._phase[1]) if now > self._phase[1] + 0.5 else 0.0
        left = f", {(total - done) / rate:.0f} s left" if rate else ""
        text = f"{key}: {100 * done // max(total, 1)}% {done}/{total}{left}"
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def failed(self, run: int, error: str) -> None:
        self.close()
        sys.stderr.write(f"{self._names[run]} failed: {error}\n")
        self._width = 0

    def close(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()


def listener(progress: bool | Listener, name: str) -> Listener | None:
    """Who hears of progress: nobody, a listener that is given, or a bar."""
    if isinstance(progress, Listener):
        return progress
    if not progress:
        return None
    try:
        return _Bars(name)
    except ImportError:
        return _Line(name) if sys.stderr.isatty() else None
