"""Data sets from arrays, tables, files and Minari."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import esper


def small(**more: object) -> esper.Dataset:
    arrays = {
        "observations": np.array([0, 1, 2, 0, 3]),
        "actions": np.array([1, 1, 0, 0, 2]),
        "rewards": np.array([0.0, 0.5, 1.0, 0.0, -1.0]),
        "episode_ids": np.array([7, 7, 7, 5, 5]),
    }
    return esper.Dataset.from_arrays(**{**arrays, **more})


def test_whole_numbers_are_categories() -> None:
    data = small()
    assert (data.episodes, data.steps, len(data)) == (2, 5, 2)
    assert data.observation_space == {"type": "Discrete", "n": 4}
    assert data.action_space == {"type": "Discrete", "n": 3}
    assert data.returns.tolist() == [1.5, -1.0]
    assert data.lengths.tolist() == [3, 2]
    assert data.episode_ids.tolist() == [0, 0, 0, 1, 1]
    assert data.timesteps.tolist() == [0, 1, 2, 0, 1]
    assert data.returns_to_go().tolist() == [1.5, 1.5, 1.0, -1.0, -1.0]
    assert data.returns_to_go(0.5).tolist() == [0.5, 1.0, 1.0, -0.5, -1.0]
    # Nothing was said about what came last, or how episodes ended.
    assert data.final_observations.tolist() == [2, 3]
    assert data.terminated.all() and not data.truncated.any()
    assert repr(data) == "<esper.Dataset: 2 episodes, 5 steps, observations Discrete(4), actions Discrete(3)>"


def test_real_numbers_are_numbers_and_shapes_are_kept() -> None:
    seen = np.arange(5 * 2 * 3, dtype=np.float64).reshape(5, 2, 3)
    data = small(observations=seen, actions=np.linspace(-1, 1, 10).reshape(5, 2))
    assert data.observation_space == {"type": "Box", "shape": [2, 3]}
    assert data.observations.dtype == np.float32
    np.testing.assert_array_equal(data.observations, seen)
    assert data.actions.shape == (5, 2)


def test_what_last_actions_led_to_is_kept() -> None:
    after = np.array([1, 2, 9, 3, 8])
    data = small(next_observations=after)
    assert data.final_observations.tolist() == [9, 8]
    assert data.next_observations.tolist() == after.tolist()
    assert data == small(final_observations=np.array([9, 8]))
    assert data != small()


def test_episodes_are_where_they_are_said_to_be() -> None:
    data = small()
    flags = np.array([0, 0, 1, 0, 1], bool)
    assert small(episode_ids=None, lengths=[3, 2]) == data
    assert small(episode_ids=None, terminations=flags) == data
    cut = small(episode_ids=None, terminations=np.array([0, 0, 1, 0, 0]))
    assert cut.terminated.tolist() == [True, False] and cut.truncated.tolist() == [False, True]
    both = small(episode_ids=None, terminations=[0, 0, 1, 0, 0], truncations=[0, 0, 0, 0, 1])
    assert both == cut


def test_episodes_in_pieces_are_put_together() -> None:
    order = np.array([0, 3, 1, 4, 2])
    whole = small(next_observations=np.arange(5))
    mixed = esper.Dataset.from_arrays(
        whole.observations[order],
        whole.actions[order],
        whole.rewards[order],
        episode_ids=np.array(["b", "b", "b", "a", "a"])[order],
        next_observations=np.arange(5)[order],
    )
    assert mixed == whole


def test_behaviours_are_by_episode_or_by_step() -> None:
    data = small(behaviours=["careful", "bold"])
    assert data.behaviours == ["careful", "bold"]
    assert data.behaviour_of.tolist() == [0, 1]
    assert small(behaviours=["careful"] * 3 + ["bold"] * 2) == data
    assert [each["mean_return"] for each in data.info()["behaviours"]] == [1.5, -1.0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rewards": [0.0, 1.0]}, "rows where there are 2"),
        ({"rewards": [0.0, 0.0, 0.0, np.nan, 0.0]}, "the reward of episode 1, step 0 is NaN"),
        ({"actions": np.array([0, -1, 0, 0, 0])}, "categories are whole numbers from 0"),
        ({"observations": np.array([0, 1, 2, 0, 70_000])}, "categories are whole numbers from 0"),
        ({"observations": np.array([0, 1, np.inf, 0, 1])}, "episode 0, step 2"),
        ({"observations": np.array(list("abcde"))}, "from_pandas"),
        ({"episode_ids": None}, "where do episodes end"),
        ({"episode_ids": [1, 2]}, "one a step"),
        ({"lengths": [5]}, "one of them is enough"),
        ({"episode_ids": None, "lengths": [3, 1]}, "add up to 4"),
        ({"behaviours": ["a"]}, "one an episode"),
        ({"final_observations": [1]}, "1 rows where there are 2"),
        ({"action_space": {"type": "Discrete", "n": 2}}, "2 is not below 2"),
    ],
)
def test_what_makes_no_sense_is_said(changes: dict[str, object], words: str) -> None:
    with pytest.raises(esper.DataError, match=words) as raised:
        small(**changes)
    assert isinstance(raised.value, ValueError)


def test_spaces_can_be_gymnasiums() -> None:
    spaces = pytest.importorskip("gymnasium.spaces")
    data = small(observation_space=spaces.Discrete(10), action_space=spaces.Discrete(4))
    assert data.observation_space == {"type": "Discrete", "n": 10}
    assert data.gymnasium_spaces() == (spaces.Discrete(10), spaces.Discrete(4))


def test_files_are_read_again(tmp_path: Path) -> None:
    data = small(behaviours=["careful", "bold"])
    path = data.write(tmp_path / "data.parquet")
    again = esper.Dataset.read(path)
    assert again == data and again.path == path
    with pytest.raises(esper.FileError, match="already exists"):
        data.write(path)
    data.write(path, overwrite=True)
    with pytest.raises(FileNotFoundError) as raised:
        esper.Dataset.read(tmp_path / "nothing.parquet")
    assert isinstance(raised.value, esper.EsperError) and "nothing.parquet" in str(raised.value)


def test_views_and_pickles_are_the_same_episodes() -> None:
    data = small(behaviours=["careful", "bold"])
    view = data.select([1])
    assert view.rewards.tolist() == [0.0, -1.0] and view.episodes == 1
    assert data.select(np.array([False, True])) == view
    assert data.first_steps(1) == data.select([0])
    for each in (data, view):
        assert pickle.loads(pickle.dumps(each)) == each
    for wrong in ([], [2], [0, 0]):
        with pytest.raises(esper.DataError):
            data.select(wrong)


def test_info_is_the_programs(gambling: esper.Dataset) -> None:
    info = gambling.info()
    assert {"task", "steps", "episodes", "mean_return", "behaviours", "warnings", "histogram"} <= info.keys()
    assert info["task"] == gambling.task == "gambling"
    assert info["mean_return"] == pytest.approx(gambling.returns.mean())
    assert "random" in gambling._repr_html_()


def frames(patients_csv: Path) -> dict[str, esper.Dataset]:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.csv")
    columns = {"episode": "patient", "time": "day", "action": "treatment", "reward": "outcome"}
    frame = pandas.read_csv(patients_csv)
    return {
        "pandas": esper.Dataset.from_pandas(frame, **columns),
        "categories": esper.Dataset.from_pandas(frame.astype({"ward": "category"}), **columns),
        "polars": esper.Dataset.from_polars(polars.read_csv(patients_csv), **columns),
        "arrow": esper.Dataset.from_arrow(pyarrow.csv.read_csv(patients_csv), **columns),
    }


def test_tables_in_memory_are_those_of_files(patients_csv: Path) -> None:
    found = frames(patients_csv)
    data = found.pop("pandas")
    assert data.episodes == 200 and data.action_words == ["drug", "none"]
    assert {field["name"] for field in data.fields["observation"]} == {"age", "ward"}
    for name, other in found.items():
        assert other == data, name
    # The file itself: only its time has to be named.
    assert esper.Dataset.read(patients_csv).returns.tolist() == data.returns.tolist()


def test_tables_in_doubt_are_asked_about_in_python() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"who": ["a", "b"], "x": [1.0, 2.0], "y": [0.5, 1.5]})
    with pytest.raises(esper.DataError) as raised:
        esper.Dataset.from_pandas(frame)
    assert "--" not in str(raised.value) and "action=" in str(raised.value)
    with pytest.raises(esper.DataError, match="no column `wo`"):
        esper.Dataset.from_pandas(frame, episode="wo", action="x", reward="y")


def test_minari_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    pytest.importorskip("h5py")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    data = small(observations=np.arange(10, dtype=np.float32).reshape(5, 2), behaviours=["careful", "bold"])
    theirs = data.to_minari("mine/log-v0")
    assert theirs.total_episodes == 2 and theirs.total_steps == 5
    assert [float(episode.rewards.sum()) for episode in theirs.iterate_episodes()] == data.returns.tolist()
    assert esper.Dataset.from_minari(minari.load_dataset("mine/log-v0")) == data
    assert esper.Dataset.from_minari("mine/log-v0") == data
    folder = data.to_minari(folder=tmp_path / "elsewhere")
    assert esper.Dataset.from_minari(folder) == data


def test_the_examples_of_the_documentation() -> None:
    import doctest

    import esper.data

    pytest.importorskip("pandas")
    found = doctest.testmod(esper.data)
    assert found.attempted > 3 and found.failed == 0
