"""The built-in tasks as Gymnasium environments.

``import esper`` registers them where Gymnasium is installed: ``gymnasium.make("esper/ConnectFour-v0")``, and
``gymnasium.make_vec`` steps many copies at once, in Rust. ``gymnasium.make("esper/Task-v0", task="hopper+noise=0.5")`` takes any
task by the name that the program has for it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from . import _esper
from .spaces import to_gymnasium

__all__ = ["TaskEnv", "TaskVectorEnv", "env_id", "register"]

#: The environment that takes any task.
ANY = "esper/Task-v0"


def env_id(task: str) -> str:
    """The id of a built-in task's environment: ``connect-four`` is ``esper/ConnectFour-v0``."""
    words = "".join(word[:1].upper() + word[1:] for word in task.replace("_", "-").split("-"))
    return f"esper/{words}-v0"


def register() -> None:
    """Registers all built-in tasks; those that are registered already stay."""
    known = gymnasium.registry
    entries = {env_id(name): {"task": name} for name in _esper.task_names()}
    for name, arguments in {**entries, ANY: {}}.items():
        if name not in known:
            gymnasium.register(
                id=name,
                entry_point="esper.envs:TaskEnv",
                vector_entry_point="esper.envs:TaskVectorEnv",
                kwargs=arguments,
                # The rules of our worlds say when an episode is cut.
                max_episode_steps=None,
            )


class TaskEnv(gymnasium.Env[Any, Any]):
    """A built-in task's world."""

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012

    def __init__(self, task: str, render_mode: str | None = None) -> None:
        #: The name of the task.
        self.task = task
        self.render_mode = render_mode
        info = _esper.task_info(task)
        self.observation_space = to_gymnasium(info["observation_space"])
        self.action_space = to_gymnasium(info["action_space"])
        self._worlds = _esper.Worlds(task, 1)
        self._over = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._worlds.reset([0], [int(self.np_random.integers(2**63))])
        self._over = False
        return self._worlds.observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over; call reset() first")
        reward, terminated, truncated = self._worlds.step_one(action)
        self._over = terminated or truncated
        return self._worlds.observation(), reward, terminated, truncated, {}

    def render(self) -> str | None:  # type: ignore[override]
        return str(self._worlds.observation()) if self.render_mode == "ansi" else None


class TaskVectorEnv(VectorEnv[Any, Any, Any]):
    """Copies of a built-in task's world, stepped together in Rust. A copy whose episode is over begins another at the next
    step, whose action counts for nothing (``AutoresetMode.NEXT_STEP``)."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(self, task: str, num_envs: int = 1, render_mode: str | None = None, **_: Any) -> None:
        self.task = task
        self.num_envs = num_envs
        self.render_mode = render_mode
        info = _esper.task_info(task)
        self.single_observation_space = to_gymnasium(info["observation_space"])
        self.single_action_space = to_gymnasium(info["action_space"])
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._worlds = _esper.Worlds(task, num_envs)
        self._over = np.ones(num_envs, bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        first = seed if isinstance(seed, int) or seed is None else seed[0]
        super().reset(seed=first)
        if isinstance(seed, (list, tuple, np.ndarray)):
            # As each of them would be by itself.
            draws = [int(np.random.default_rng(each).integers(2**63)) for each in seed]
        else:
            draws = self._draws(self.num_envs)
        chosen = np.arange(self.num_envs)
        if options is not None and "reset_mask" in options:
            chosen = np.flatnonzero(options["reset_mask"])
        self._worlds.reset(chosen.tolist(), [draws[at] for at in chosen])
        self._over[chosen] = False
        return self._worlds.observations(), {}

    def _draws(self, number: int) -> list[int]:
        return [int(draw) for draw in self.np_random.integers(2**63, size=number)]

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        begins = self._over
        rewards, terminated, truncated = self._worlds.step(np.asarray(actions))
        if begins.any():
            which = np.flatnonzero(begins)
            self._worlds.reset(which.tolist(), self._draws(len(which)))
            rewards[begins], terminated[begins], truncated[begins] = 0.0, False, False
        self._over = terminated | truncated
        return self._worlds.observations(), rewards, terminated, truncated, {}
