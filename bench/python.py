"""What the Python package costs: making a data set from arrays, and one action beside Rust's own time for it.

    cargo build --release -p esper-bench --bin acting
    python bench/python.py                             # --json for one document

Times are medians over turns that take each other's place, so that a busy machine is busy for both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import esper


def from_arrays(steps: int, turns: int) -> dict[str, float]:
    """Seconds for 2048: 16 cells an observation, as its world gives them, and as int64, which most programs have."""
    data = esper.collect("twenty48", steps=steps, progress=False)
    plain = {
        "observations": np.ascontiguousarray(data.observations),
        "actions": np.ascontiguousarray(data.actions),
        "rewards": np.ascontiguousarray(data.rewards),
        "lengths": data.lengths,
    }
    wide = {**plain, "observations": plain["observations"].astype(np.int64), "actions": plain["actions"].astype(np.int64)}
    ids = {name: plain[name] for name in ("observations", "actions", "rewards")}
    ids["episode_ids"] = np.repeat(np.arange(data.episodes), data.lengths)
    # NumPy's own copy of the largest column: what memory alone takes.
    found: dict[str, list[float]] = {"from_arrays": [], "from_arrays_ids": [], "from_arrays_int64": [], "copy": []}
    for _ in range(turns):
        for name, columns in (("from_arrays", plain), ("from_arrays_ids", ids), ("from_arrays_int64", wide)):
            started = time.perf_counter()
            made = esper.Dataset.from_arrays(**columns)
            found[name].append(time.perf_counter() - started)
            assert made.steps == data.steps
            del made
        started = time.perf_counter()
        plain["observations"].copy()
        found["copy"].append(time.perf_counter() - started)
    return {"steps": data.steps, **{name: statistics.median(times) for name, times in found.items()}}


def act(program: Path, turns: int, actions: int) -> dict[str, float]:
    """Microseconds for one action of an MLP policy of the usual size, in Python and in Rust."""
    data = esper.collect("twenty48", steps=20_000, progress=False)
    rows = list(np.ascontiguousarray(data.observations[:4_096]))
    with tempfile.TemporaryDirectory() as home:
        file = data.write(Path(home) / "data.parquet")
        run = esper.train(data, "rvs", out=Path(home) / "run", progress=False, mlp__steps=50)
        policy = run.policy
        ours, rusts = [], []
        for _ in range(turns):
            command = [program, run.path, file, "--actions", str(actions)]
            rusts.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            times = []
            policy.reset()
            for at in range(actions):
                row = rows[at % len(rows)]
                started = time.perf_counter()
                policy.act(row)
                times.append(time.perf_counter() - started)
            ours.append(statistics.median(times[actions // 10 :]) * 1e6)
    differences = [python - rust for python, rust in zip(ours, rusts)]
    return {"act": statistics.median(ours), "act_rust": statistics.median(rusts), "act_more": statistics.median(differences)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--actions", type=int, default=10_000)
    parser.add_argument("--program", type=Path, default=Path("target/release/acting"))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = {**from_arrays(arguments.steps, arguments.turns), **act(arguments.program, arguments.turns, arguments.actions)}
    if arguments.json:
        print(json.dumps(found))
        return
    print(f"Dataset.from_arrays of {found['steps']:,} steps of 2048, in seconds (asked: at most 1)")
    print(f"  as it is stored, with lengths    {found['from_arrays']:.2f}")
    print(f"  with an id for every step        {found['from_arrays_ids']:.2f}")
    print(f"  as int64                         {found['from_arrays_int64']:.2f}")
    print(f"  NumPy's copy of observations     {found['copy']:.2f}")
    print("policy.act of one observation, in microseconds (asked: within 20)")
    print(f"  Python {found['act']:.1f}, Rust {found['act_rust']:.1f}, difference {found['act_more']:.1f}")


if __name__ == "__main__":
    main()
