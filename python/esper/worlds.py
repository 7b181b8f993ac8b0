"""Worlds both ways: policies are tried in any Gymnasium environment, and data is collected in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import numpy as np

from . import _esper
from ._progress import Listener, listener
from .data import Dataset
from .errors import PolicyError, SettingsError, WorldError
from .policy import Policy
from .spaces import cells_of, from_gymnasium, values_of

__all__ = ["Behaviour", "collect", "evaluate", "tasks"]

#: Who decides: a function of an observation, a policy, or ``"random"``.
Behaviour = Union[Callable[[Any], Any], Policy, str]

#: Copies of a world that are stepped side by side.
COPIES = 64


def tasks() -> dict[str, str]:
    """The built-in tasks, each with what it shows."""
    return {name: _esper.task_info(name)["summary"] for name in _esper.task_names()}


def evaluate(
    policy: Policy,
    world: Any = None,
    levels: Sequence[float] | None = None,
    targets: Sequence[float] | None = None,
    *,
    episodes: int | None = None,
    seed: int = 0,
    progress: bool | Listener = False,
) -> dict[str, Any]:
    """Asks a policy for levels or returns in a world, and sees what it gets: what ``esper eval`` does, in any world.

    :param world: the name of a built-in task, which is played in Rust (that of the policy's data if nothing is said); the id of a
        Gymnasium environment, a function that makes one, one environment, or a vector environment.
    :param levels: levels to ask for, from 0 to 1; a sweep if neither is given.
    :param targets: average returns to ask for instead.
    :param episodes: episodes with each: as many as a task has luck, or 100 in other worlds, if nothing is said.
    :param seed: decides what is random in the episodes.
    :returns: as ``esper eval --json``: ``sweep`` (for every level or target ``promise``, ``achieved``, ``stderr``),
        ``best_return``, ``offline_level``, ``offline_target``, ``offline_return``, ``calibration_error``.
    """
    if world is None:
        world = policy.card["task"]
        if world is None:
            raise PolicyError("the policy was trained on data of no built-in task; say in which world to try it")
    levels, targets = list(levels or []), list(targets or [])
    heard = listener(progress, "evaluate")
    try:
        if isinstance(world, str) and "/" not in world and _is_task(world):
            return _esper.evaluate(policy._inner, world, levels, targets, episodes, seed, heard)
        if (levels or targets) and not policy.has_targets:
            raise PolicyError(f"a policy of {policy.method} cannot be asked for a return; leave out levels and targets")
        asked: list[tuple[float | None, float | None]] = [(level, None) for level in levels]
        asked += [(None, target) for target in targets]
        if not asked:
            asked = policy._inner.sweep() or [(None, None)]
        played = _Played(policy, _copies(world, COPIES), episodes or 100, seed)
        found = []
        for at, (level, target) in enumerate(asked):
            found.append((level, target, played.returns(level, target, at)))
            if heard is not None:
                heard.progress(0, "evaluate", at + 1, len(asked))
        return _esper.sum_up(policy._inner, found)
    finally:
        if heard is not None:
            heard.close()


def _is_task(name: str) -> bool:
    try:
        _esper.task_info(name)
    except SettingsError:
        return False
    return True


def _copies(world: Any, number: int) -> list[Any]:
    """Environments to play in, side by side."""
    import gymnasium

    if isinstance(world, str):
        return [gymnasium.make(world) for _ in range(number)]
    if isinstance(world, gymnasium.vector.VectorEnv):
        if hasattr(world, "envs"):
            return list(world.envs)
        spec = world.spec
        if spec is None:
            raise WorldError(
                "a vector environment without a spec cannot be copied; give its id, or a function that makes one of its worlds"
            )
        return [gymnasium.make(spec.id, **spec.kwargs) for _ in range(number)]
    if isinstance(world, gymnasium.Env):
        return [world]
    if callable(world):
        return [world() for _ in range(number)]
    raise WorldError(f"{world!r} is no world: give a task's name, a Gymnasium environment, its id, or a function that makes one")


class _Played:
    """Episodes of a policy in copies of a world."""

    def __init__(self, policy: Policy, worlds: list[Any], episodes: int, seed: int) -> None:
        if episodes < 1:
            raise SettingsError("at least one episode with each target is needed")
        self.policy, self.worlds, self.episodes, self.seed = policy, worlds, episodes, seed
        self.observation, self.action = worlds[0].observation_space, worlds[0].action_space
        self.discount = policy.card["discount"]
        for name, ours, theirs in (
            ("observations", policy.observation_space, self.observation),
            ("actions", policy.action_space, self.action),
        ):
            _check_like(name, ours, from_gymnasium(theirs))

    def returns(self, level: float | None, target: float | None, part: int) -> list[float]:
        """The return of every episode, discounted as labels are."""
        count = min(len(self.worlds), self.episodes)
        session = self.policy.session(level, target, self.seed + part)
        returns, discounts = np.zeros(self.episodes), np.ones(self.episodes)
        # The same episodes for every target.
        seeds = np.random.SeedSequence(self.seed).generate_state(self.episodes)
        playing = list(range(count))
        observations = [self._reset(at, seeds[at]) for at in range(count)]
        begun, over = count, [False] * count
        while not all(over):
            actions = session.act(np.stack(observations), words=False)
            rewards, ended = np.zeros(count), []
            for at in range(count):
                if over[at]:
                    continue
                world = self.worlds[at]
                seen, reward, terminated, truncated, _ = world.step(values_of(self.action, actions[at]))
                episode = playing[at]
                rewards[at] = reward
                returns[episode] += discounts[episode] * float(reward)
                discounts[episode] *= self.discount
                observations[at] = cells_of(self.observation, seen)
                if terminated or truncated:
                    ended.append(at)
            session.reward(rewards)
            for at in ended:
                if begun < self.episodes:
                    playing[at] = begun
                    observations[at] = self._reset(at, seeds[begun])
                    begun += 1
                else:
                    over[at] = True
            if ended:
                session.reset(ended)
        return returns.tolist()

    def _reset(self, at: int, seed: int) -> np.ndarray:
        seen, _ = self.worlds[at].reset(seed=int(seed))
        return cells_of(self.observation, seen)


def _check_like(name: str, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Whether a world has the observations or actions that a policy was trained on; bounds aside."""
    plain = [{key: value for key, value in space.items() if key != "bounds"} for space in (ours, theirs)]
    if plain[0]["type"] == "Tuple" or plain[1]["type"] == "Tuple":
        return
    if plain[0] != plain[1]:
        raise PolicyError(f"the policy was trained on {name} of {plain[0]}; those of this world are {plain[1]}")


def collect(
    world: Any,
    behaviours: Behaviour | Mapping[str, Behaviour] | Sequence[str] | None = None,
    steps: int | None = None,
    *,
    seed: int = 0,
    dataset: str | None = None,
    epsilon: float | None = None,
    progress: bool | Listener = False,
) -> Dataset:
    """Plays episodes and keeps them.

    :param world: the name of a built-in task (``esper collect``'s episodes), or a Gymnasium environment, its id or a function that
        makes one.
    :param behaviours: who decides. Of a built-in task, names that ``esper tasks`` lists; in other worlds functions from an
        observation to an action, policies, or ``"random"`` (what is done if nothing is said), several as ``{"careful": f, "bold":
        g}``, of which every episode draws one.
    :param steps: at least so many; the last episode is played to its end.
    :param seed: decides what is random, as far as the world and the behaviours take it from there.
    :param dataset: another of a built-in task's data sets.
    :param epsilon: of a built-in task's behaviour that takes random actions now and then, the share of them.

    >>> data = esper.collect("CartPole-v1", {"random": "random"}, steps=1_000)                  # doctest: +SKIP
    """
    heard = listener(progress, "collect")
    try:
        if isinstance(world, str) and "/" not in world and _is_task(world):
            if callable(behaviours) or isinstance(behaviours, (Mapping, Policy)):
                raise SettingsError(f"{world} has behaviours by name; functions play in gymnasium.make({_env_id(world)!r})")
            names = [behaviours] if isinstance(behaviours, str) else list(behaviours or [])
            inner = _esper.collect(world, dataset, names, steps, seed, epsilon, heard)
            return Dataset._of(inner)
        if dataset is not None or epsilon is not None:
            raise SettingsError("dataset and epsilon are for built-in tasks")
        if steps is None:
            raise SettingsError("say how many steps to collect: steps=10_000")
        return _collected(_copies(world, 1)[0], _players(behaviours), steps, seed, heard)
    finally:
        if heard is not None:
            heard.close()


def _env_id(task: str) -> str:
    from .envs import env_id

    return env_id(task)


def _players(behaviours: Any) -> dict[str, Behaviour]:
    if behaviours is None:
        return {"random": "random"}
    if isinstance(behaviours, Mapping):
        if not behaviours:
            raise SettingsError("nobody plays: behaviours are empty")
        return dict(behaviours)
    if isinstance(behaviours, str):
        return {behaviours: behaviours}
    return {getattr(behaviours, "__name__", "policy"): behaviours}


def _collected(world: Any, players: dict[str, Behaviour], steps: int, seed: int, heard: Listener | None) -> Dataset:
    if steps < 1:
        raise SettingsError("at least one step has to be collected")
    seen_space, done_space = world.observation_space, world.action_space
    random = np.random.default_rng(seed)
    world.action_space.seed(seed)
    names = list(players)
    seen: list[np.ndarray] = []
    done: list[np.ndarray] = []
    rewards: list[float] = []
    finals: list[np.ndarray] = []
    lengths: list[int] = []
    terminated: list[bool] = []
    made_by: list[str] = []
    first: int | None = seed
    while len(rewards) < steps:
        name = names[int(random.integers(len(names)))]
        act = _acting(players[name], done_space, int(random.integers(2**31)))
        observation, _ = world.reset(seed=first)
        first = None
        before, over = len(rewards), False
        while not over:
            action = act(observation)
            seen.append(cells_of(seen_space, observation))
            done.append(cells_of(done_space, action))
            observation, reward, ended, cut, _ = world.step(action)
            rewards.append(float(reward))
            over = bool(ended or cut)
        finals.append(cells_of(seen_space, observation))
        lengths.append(len(rewards) - before)
        terminated.append(bool(ended))
        made_by.append(name)
        if heard is not None:
            heard.progress(0, "collect", min(len(rewards), steps), steps)
    ends = np.asarray(terminated)
    shapes = [tuple(space.get("shape", ())) for space in map(from_gymnasium, (seen_space, done_space))]
    return Dataset.from_arrays(
        _stacked(seen, shapes[0]),
        _stacked(done, shapes[1]),
        rewards,
        lengths=lengths,
        terminations=ends,
        truncations=~ends,
        final_observations=_stacked(finals, shapes[0]),
        behaviours=made_by,
        observation_space=_unbounded(from_gymnasium(seen_space)),
        action_space=from_gymnasium(done_space),
    )


def _stacked(rows: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    stacked = np.stack(rows)
    return stacked.reshape(len(rows), *shape) if shape else stacked


def _unbounded(space: dict[str, Any]) -> dict[str, Any]:
    """Observations may lie a little outside of what an environment says of them."""
    return {key: value for key, value in space.items() if key != "bounds"}


def _acting(player: Behaviour, space: Any, seed: int) -> Callable[[Any], Any]:
    if isinstance(player, Policy):
        session = player.session(seed=seed)
        return lambda observation: values_of(space, session.act(observation, words=False))
    if isinstance(player, str):
        if player != "random":
            raise SettingsError(f"there is no behaviour `{player}`; give a function, a policy, or 'random'")
        return lambda _: space.sample()
    return player
