"""Worlds both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import TINY

import esper

gymnasium = pytest.importorskip("gymnasium")

WORLDS = ["esper/Gambling-v0", "esper/ConnectFour-v0", "esper/Twenty48-v0", "esper/WindyGrid-v0", "esper/Queue-v0"]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.filterwarnings("ignore:.*render.*")
def test_tasks_are_environments(world: str) -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make(world).unwrapped)


@pytest.mark.parametrize("world", WORLDS)
def test_copies_are_stepped_together(world: str) -> None:
    """Each of them does what it would do by itself."""
    seeds = [3, 4, 5]
    vector = gymnasium.make_vec(world, num_envs=3)
    single = [gymnasium.make(world) for _ in seeds]
    seen, _ = vector.reset(seed=seeds)
    alone = [each.reset(seed=seed)[0] for each, seed in zip(single, seeds, strict=True)]
    assert seen in vector.observation_space
    np.testing.assert_array_equal(seen, np.stack(alone))
    vector.action_space.seed(0)
    over = [False] * 3
    for _ in range(30):
        actions = vector.action_space.sample()
        seen, rewards, terminated, truncated, _ = vector.step(actions)
        for at, each in enumerate(single):
            if over[at]:
                continue
            observation, reward, ended, cut, _ = each.step(actions[at])
            np.testing.assert_array_equal(seen[at], observation)
            assert (rewards[at], terminated[at], truncated[at]) == (reward, ended, cut)
            over[at] = ended or cut


def test_a_copy_that_is_over_begins_again() -> None:
    vector = gymnasium.make_vec("esper/Gambling-v0", num_envs=2)
    first, _ = vector.reset(seed=0)
    over = np.zeros(2, bool)
    for _ in range(20):
        seen, rewards, terminated, truncated, _ = vector.step(np.zeros(2, int))
        for at in np.flatnonzero(over):
            assert seen[at] == first[at] and rewards[at] == 0 and not terminated[at]
        over = terminated | truncated
    assert over.shape == (2,)


def test_any_task_by_its_name() -> None:
    world = gymnasium.make("esper/Task-v0", task="mdp-17")
    seen, _ = world.reset(seed=0)
    assert seen in world.observation_space
    with pytest.raises(esper.SettingsError, match="no task `chess`"):
        gymnasium.make("esper/Task-v0", task="chess")
    with pytest.raises(esper.WorldError, match="outside Discrete"):
        world.unwrapped.step(99)


def test_worlds_of_both_sides_agree(trained: esper.Run) -> None:
    """A policy gets as much in Rust's world as in the same one behind Gymnasium."""
    arguments: dict[str, Any] = {"levels": [0.9], "episodes": 600}
    ours = esper.evaluate(trained.policy, **arguments)["sweep"][0]
    for world in ("esper/Gambling-v0", lambda: gymnasium.make("esper/Gambling-v0")):
        theirs = esper.evaluate(trained.policy, world, **arguments)["sweep"][0]
        assert theirs["promise"] == ours["promise"] and theirs["episodes"] == 600
        spread = np.hypot(ours["stderr"], theirs["stderr"])
        assert abs(theirs["achieved"] - ours["achieved"]) < 4 * spread + 1e-9


def test_what_cannot_be_evaluated_is_said(trained: esper.Run, gambling: esper.Dataset) -> None:
    with pytest.raises(esper.PolicyError, match="trained on observations"):
        esper.evaluate(trained.policy, "esper/Twenty48-v0", episodes=1)
    with pytest.raises(esper.WorldError, match="is no world"):
        esper.evaluate(trained.policy, 3)
    policy = esper.train(gambling, "bc", progress=False, settings=TINY).policy
    with pytest.raises(esper.PolicyError, match="cannot be asked"):
        esper.evaluate(policy, "esper/Gambling-v0", levels=[0.5])
    assert esper.evaluate(policy, "esper/Gambling-v0", episodes=20)["best_return"] is not None


def test_collecting_is_the_programs(gambling: esper.Dataset) -> None:
    assert gambling == esper.collect("gambling", steps=3_000, seed=1)
    assert gambling != esper.collect("gambling", steps=3_000, seed=2)
    assert esper.collect("connect-four", ["random"], steps=200).behaviours == ["random"]
    with pytest.raises(esper.SettingsError, match="no behaviour `nobody`"):
        esper.collect("gambling", ["nobody"])


def test_a_gymnasium_world_is_collected_in_and_learned_from() -> None:
    """CartPole: whoever pushes to where the pole falls holds it longer than chance does."""

    def follow(observation: np.ndarray) -> int:
        return int(observation[2] + observation[3] > 0)

    data = esper.collect("CartPole-v1", {"follow": follow, "random": "random"}, steps=9_000, seed=0)
    assert data.steps >= 9_000 and sorted(data.behaviours) == ["follow", "random"]
    assert data.observation_space["type"] == "Box" and data.action_space == {"type": "Discrete", "n": 2}
    by = {each["name"]: each["mean_return"] for each in data.info()["behaviours"]}
    assert by["follow"] > 3 * by["random"]
    # Every episode is whole: what each action led to is what the next one acted on.
    starts = np.flatnonzero(data.timesteps == 0)[1:]
    inside = np.setdiff1d(np.arange(1, data.steps), starts)
    np.testing.assert_array_equal(data.observations[inside], data.next_observations[inside - 1])
    policy = esper.train(data, "bc", progress=False, settings=TINY).policy
    found = esper.evaluate(policy, "CartPole-v1", episodes=20)
    assert found["best_return"] > by["random"]
    again = esper.collect("CartPole-v1", policy, steps=50)
    assert again.behaviours == ["policy"]


def test_numbers_beside_categories() -> None:
    class Mixed(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict(
            {"level": gymnasium.spaces.Box(-1, 1, (2,)), "mode": gymnasium.spaces.Discrete(3, start=1)}
        )
        action_space = gymnasium.spaces.Discrete(2, start=5)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            self.left = 3
            return self._seen(), {}

        def _seen(self) -> dict[str, Any]:
            return {
                "level": self.np_random.uniform(-1, 1, 2).astype(np.float32),
                "mode": int(self.np_random.integers(1, 4)),
            }

        def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            assert action in (5, 6)
            self.left -= 1
            return self._seen(), float(action == 6), self.left == 0, False, {}

    data = esper.collect(Mixed, steps=600)
    assert data.observation_space["type"] == "Tuple" and data.observations.shape[1] == 3
    assert set(np.unique(data.observations[:, 2])) <= {0.0, 1.0, 2.0}
    policy = esper.train(data, "rvs", progress=False, settings=TINY).policy
    found = esper.evaluate(policy, Mixed, targets=[0.0, 3.0], episodes=40)
    low, high = (entry["achieved"] for entry in found["sweep"])
    assert high > low + 1
