"""Writes the small files in `formats/` that the readers of other tools' formats are tested on.

The tools themselves write them wherever they can be installed:

    python -m venv new && new/bin/pip install "minari[create]>=0.5,<0.6" pyarrow gymnasium h5py pillow
    python -m venv old && old/bin/pip install "minari<0.5" "gymnasium<1" h5py
    new/bin/pip install --no-deps d3rlpy==2.8.1 && new/bin/pip install typing_extensions structlog dataclasses_json
    new/bin/python make_formats.py
    old/bin/python make_formats.py minari-0.4

d3rlpy imports PyTorch, which none of this needs: a stand-in takes its place, so that the code that writes the file is
d3rlpy's own. D4RL is no longer installable; its files are flat arrays that h5py writes. RLlib's and RLDS's tables are
written by pyarrow with the columns and types that those document.

All numbers follow from the number of the episode `e`, the step `t` and the cell `i`, so that tests can say what they have to be.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import sys
import tempfile
import types
from unittest import mock

import h5py
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent / "formats"
LENGTHS = [3, 1, 4]


def terminated(e):
    """Episodes 0 and 2 end, episode 1 is cut."""
    return e != 1


def box(e, t, i):
    return e + t / 4 + 10 * i


def rewards(e):
    """0, 1, 2, ... less a half for every episode: sums are 3, -0.5 and 2."""
    return np.array([t - e / 2 for t in range(LENGTHS[e])])


def flags(e, which):
    values = np.zeros(LENGTHS[e], dtype=bool)
    values[-1] = terminated(e) == (which == "terminations")
    return values


def boxes(e, rows, cells, dtype=np.float32):
    return np.array([[box(e, t, i) for i in range(cells)] for t in range(rows)], dtype=dtype)


# Minari.


def minari_cases():
    """Name, observation space, action space, observations and actions of an episode."""
    from gymnasium import spaces

    plain = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    return [
        (
            "box",
            plain,
            spaces.Box(-1, np.array([1, 2], np.float32), (2,), np.float32),
            lambda e, n: boxes(e, n, 2),
            lambda e, n: boxes(e, n, 2) / 100,
        ),
        (
            "discrete",
            spaces.Discrete(50),
            spaces.Discrete(3, start=-1),
            lambda e, n: np.array([10 * e + t for t in range(n)]),
            lambda e, n: np.array([(e + t) % 3 - 1 for t in range(n)]),
        ),
        (
            "mixed",
            spaces.Dict(
                {
                    "arm": spaces.Dict({"angle": spaces.Box(-9, 99, (1, 2), np.float64), "grip": spaces.MultiBinary(2)}),
                    "mode": spaces.Discrete(4, start=5),
                    "pair": spaces.Tuple((spaces.MultiDiscrete([2, 3]), plain)),
                }
            ),
            spaces.MultiDiscrete([4, 2]),
            lambda e, n: {
                "arm": {
                    "angle": boxes(e, n, 2, np.float64).reshape(n, 1, 2),
                    "grip": np.array([[t % 2, e % 2] for t in range(n)], dtype=np.int8),
                },
                "mode": np.array([5 + (t + e) % 4 for t in range(n)]),
                "pair": (np.array([[t % 2, t % 3] for t in range(n)]), boxes(e, n, 2)),
            },
            lambda e, n: np.array([[(e + t) % 4, t % 2] for t in range(n)]),
        ),
        (
            "binary",
            spaces.Tuple((spaces.Discrete(5), spaces.MultiDiscrete([3, 4]))),
            spaces.MultiBinary(3),
            lambda e, n: (np.array([t for t in range(n)]), np.array([[e, t % 4] for t in range(n)])),
            lambda e, n: np.array([[t % 2, e % 2, 1] for t in range(n)], dtype=np.int8),
        ),
        (
            "nested",
            spaces.Dict({"goal": plain, "pair": spaces.Tuple((spaces.Discrete(4, start=5), plain))}),
            spaces.Discrete(3),
            lambda e, n: {
                "goal": boxes(e, n, 2),
                # Version 0.4 takes a tuple for every step.
                "pair": [(np.int64(5 + (t + e) % 4), boxes(e, n, 2)[t]) for t in range(n)],
            },
            lambda e, n: np.array([(e + t) % 3 for t in range(n)]),
        ),
    ]


def minari_new():
    import minari
    from minari.data_collector import EpisodeBuffer

    for name, observation_space, action_space, observations, actions in minari_cases()[:4]:
        for layout in ["hdf5", "arrow", "parquet"]:
            # One file a layout is enough where nothing is nested.
            if name in ("discrete", "binary") and layout != "hdf5":
                continue
            buffers = [
                EpisodeBuffer(
                    id=e,
                    seed=e,
                    observations=observations(e, n + 1),
                    actions=actions(e, n),
                    rewards=list(rewards(e)),
                    terminations=list(flags(e, "terminations")),
                    truncations=list(flags(e, "truncations")),
                )
                for e, n in enumerate(LENGTHS)
            ]
            with tempfile.TemporaryDirectory() as root:
                os.environ["MINARI_DATASETS_PATH"] = root
                minari.create_dataset_from_buffers(
                    f"{name}-v0",
                    buffers,
                    env=None,
                    observation_space=observation_space,
                    action_space=action_space,
                    data_format=layout,
                )
                to = HERE / f"minari-0.5-{layout}-{name}"
                shutil.rmtree(to, ignore_errors=True)
                shutil.copytree(pathlib.Path(root) / f"{name}-v0", to)


def minari_old():
    from minari.dataset.minari_storage import MinariStorage

    for name, observation_space, action_space, observations, actions in minari_cases():
        # This version cannot write all spaces.
        if name not in ("box", "nested"):
            continue
        to = HERE / f"minari-0.4-{name}"
        shutil.rmtree(to, ignore_errors=True)
        (to / "data").mkdir(parents=True)
        storage = MinariStorage.new(to / "data", observation_space, action_space)
        storage.update_metadata({"dataset_id": f"{name}-v0", "minari_version": "0.4.3"})
        storage.update_episodes(
            {
                "id": e,
                "seed": e,
                "observations": observations(e, n + 1),
                "actions": actions(e, n),
                "rewards": rewards(e),
                "terminations": flags(e, "terminations"),
                "truncations": flags(e, "truncations"),
            }
            for e, n in enumerate(LENGTHS)
        )


# D4RL.


def d4rl():
    steps = sum(LENGTHS)
    observations = np.concatenate([boxes(e, n, 2) for e, n in enumerate(LENGTHS)])
    following = np.concatenate([boxes(e, n + 1, 2)[1:] for e, n in enumerate(LENGTHS)])
    arrays = {
        "observations": observations,
        "next_observations": following,
        "actions": observations / 100,
        "rewards": np.concatenate([rewards(e) for e in range(len(LENGTHS))]).astype(np.float32),
        "terminals": np.concatenate([flags(e, "terminations") for e in range(len(LENGTHS))]),
        "timeouts": np.concatenate([flags(e, "truncations") for e in range(len(LENGTHS))]),
    }
    with h5py.File(HERE / "d4rl.hdf5", "w") as file:
        for key, values in arrays.items():
            file.create_dataset(key, data=values, compression="gzip")
        file.create_dataset("infos/qpos", data=np.zeros((steps, 3)), compression="gzip")
        file.create_dataset("metadata/algorithm", data=np.bytes_("SAC"))
    # As older files are: no next observations, and the last episode is still under way.
    with h5py.File(HERE / "d4rl-unfinished.hdf5", "w") as file:
        for key, values in arrays.items():
            if key != "next_observations":
                file.create_dataset(key, data=values[: steps - 1])


def claims():
    """Arrays of a terabyte that were never written: a few kilobytes of file."""
    folder = HERE.parent / "claims"
    folder.mkdir(exist_ok=True)
    for name, options in [("chunked", {"chunks": (1024,)}), ("contiguous", {})]:
        with h5py.File(folder / f"{name}.hdf5", "w") as file:
            for key in ["observations", "actions", "rewards", "terminals", "timeouts"]:
                file.create_dataset(key, (1 << 38,), dtype=np.float32, **options)


# d3rlpy.


def d3rlpy_dataset():
    """The module `d3rlpy.dataset`, without the rest of d3rlpy and without PyTorch."""
    nn = ["torch.nn", "torch.nn.functional", "torch.nn.parallel"]
    for name in ["torch", *nn, "torch.optim", "torch.cuda", "gym", "gym.spaces"]:
        sys.modules[name] = mock.MagicMock()
    package = types.ModuleType("d3rlpy")
    package.__path__ = list(importlib.util.find_spec("d3rlpy").submodule_search_locations)
    sys.modules["d3rlpy"] = package
    return importlib.import_module("d3rlpy.dataset")


def d3rlpy():
    dataset = d3rlpy_dataset()
    for name, observations, actions in [
        ("continuous", lambda e, n: boxes(e, n, 2), lambda e, n: boxes(e, n, 2) / 100),
        (
            "discrete",
            lambda e, n: (boxes(e, n, 2), boxes(e, n, 1)),
            lambda e, n: np.array([[(e + t) % 3] for t in range(n)]),
        ),
    ]:
        episodes = [
            dataset.Episode(observations(e, n), actions(e, n), rewards(e).reshape(n, 1).astype(np.float32), terminated(e))
            for e, n in enumerate(LENGTHS)
        ]
        with open(HERE / f"d3rlpy-{name}.h5", "w+b") as file:
            dataset.dump(episodes, file)


# Tables.


def tables():
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    for e, n in enumerate(LENGTHS):
        for t in range(n):
            rows.append(
                {
                    "eps_id": 7000 + e,
                    "t": t,
                    "obs": boxes(e, n, 2)[t].tolist(),
                    "new_obs": boxes(e, n + 1, 2)[t + 1].tolist(),
                    "actions": (e + t) % 3,
                    "rewards": float(rewards(e)[t]),
                    "terminateds": bool(flags(e, "terminations")[t]),
                    "truncateds": bool(flags(e, "truncations")[t]),
                    "agent_index": 0,
                }
            )
    # Shards of several workers are not in order.
    order = [5, 0, 7, 3, 1, 4, 2, 6]
    shuffled = pa.Table.from_pylist([rows[at] for at in order])
    pq.write_table(shuffled, HERE / "rllib.parquet")
    older = [{k: v for k, v in row.items() if k not in ("new_obs", "truncateds", "terminateds")} for row in rows]
    for old, row in zip(older, rows):
        old["dones"] = row["terminateds"] or row["truncateds"]
    pq.write_table(pa.Table.from_pylist(older), HERE / "rllib-dones.parquet")

    episodes = []
    for e, n in enumerate(LENGTHS):
        steps = []
        for t in range(n + 1):
            last = t == n
            steps.append(
                {
                    "observation": {"state": boxes(e, n + 1, 2)[t].tolist(), "mode": t},
                    "action": [0.0, 0.0] if last else (boxes(e, n, 2)[t] / 100).tolist(),
                    "reward": 0.0 if last else float(rewards(e)[t]),
                    "discount": 0.0 if last and terminated(e) else 1.0,
                    "is_first": t == 0,
                    "is_last": last,
                    "is_terminal": last and terminated(e),
                }
            )
        episodes.append({"steps": steps, "episode_metadata": {"file_path": f"episode {e}"}})
    pq.write_table(pa.Table.from_pylist(episodes), HERE / "rlds.parquet")
    flat = [step for episode in episodes for step in episode["steps"]]
    pq.write_table(pa.Table.from_pylist(flat), HERE / "rlds-flat.parquet")


def main():
    HERE.mkdir(exist_ok=True)
    if sys.argv[1:] == ["minari-0.4"]:
        return minari_old()
    minari_new()
    d4rl()
    claims()
    d3rlpy()
    tables()
    sizes = [path.stat().st_size for path in HERE.rglob("*") if path.is_file()]
    print(json.dumps({"files": len(sizes), "bytes": sum(sizes)}))


if __name__ == "__main__":
    main()
