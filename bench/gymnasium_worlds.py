#!/usr/bin/env python3
"""Promises in Gymnasium's own worlds: logs of a few behaviours, ESPER with its default, and what it gets. How luck is measured in long
episodes was settled on some of them (Pendulum, MountainCar, CartPole).

    pip install '.[worlds]'
    python bench/gymnasium_worlds.py [WORLD ...] [--seed S]

For every world: what the best and the worst behaviour return, the level that is chosen from the data alone, what it promises and what it gets
in the world, the mean error over seven levels as a share of the range of behaviours, and CPU seconds of the training.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np

import esper

Behaviour = Callable[[Any], Any]


class World(NamedTuple):
    """How a world is made, who acts in it, for how many steps in all, and how many episodes say what a policy gets."""

    make: Callable[[], gymnasium.Env[Any, Any]]
    behaviours: Callable[[gymnasium.Env[Any, Any], np.random.Generator], dict[str, Behaviour]]
    steps: int
    episodes: int = 300


class Gusts(gymnasium.ActionWrapper[Any, Any, Any]):
    """Three actions of ten are not what was chosen."""

    def action(self, action: Any) -> Any:
        return self.env.action_space.sample() if self.env.unwrapped.np_random.random() < 0.3 else action


def careless(decide: Behaviour, *chances: float) -> Callable[[Any, np.random.Generator], dict[str, Behaviour]]:
    """Somebody who does what comes to mind with each of some chances, else what is decided."""

    def behaviours(env: Any, rng: np.random.Generator) -> dict[str, Behaviour]:
        env.action_space.seed(int(rng.integers(1 << 30)))

        def behaviour(chance: float) -> Behaviour:
            return lambda seen: env.action_space.sample() if rng.random() < chance else decide(seen)

        return {f"careless {chance}": behaviour(chance) for chance in chances}

    return behaviours


def softmax(*temperatures: float) -> Callable[[Any, np.random.Generator], dict[str, Behaviour]]:
    """Those who choose by the true values of a finite world, more and less strictly."""

    def behaviours(env: Any, rng: np.random.Generator) -> dict[str, Behaviour]:
        model, values = env.unwrapped.P, np.zeros(env.observation_space.n)
        for _ in range(300):
            worth = np.array(
                [
                    [sum(p * (r + 0.99 * values[to] * (not end)) for p, to, r, end in outcomes) for outcomes in actions.values()]
                    for actions in (model[state] for state in range(len(values)))
                ]
            )
            values = worth.max(axis=1)

        def behaviour(temperature: float) -> Behaviour:
            chances = np.exp((worth - worth.max(axis=1, keepdims=True)) / temperature)
            chances /= chances.sum(axis=1, keepdims=True)
            return lambda seen: int(rng.choice(chances.shape[1], p=chances[int(seen)]))

        return {f"temperature {temperature}": behaviour(temperature) for temperature in temperatures}

    return behaviours


def swing_up(_: Any, rng: np.random.Generator) -> dict[str, Behaviour]:
    """Pumps energy into a pendulum, then holds it; mixed with noise."""

    def behaviour(share: float) -> Behaviour:
        def decide(seen: Any) -> Any:
            cosine, sine, speed = (float(x) for x in seen)
            energy = 0.5 * speed**2 + 10 * (cosine - 1)
            push = np.sign(speed or 1.0) * 2 * np.clip(-energy, -1, 1)
            hold = -(10 * np.arctan2(sine, cosine) + 2 * speed)
            chosen = share * (hold if cosine > 0.85 else push) + (1 - share) * 2 * rng.normal()
            return np.clip([chosen], -2, 2).astype(np.float32)

        return decide

    return {f"share {share}": behaviour(share) for share in (1.0, 0.7, 0.3)}


def hits(*below: int) -> Callable[[Any, np.random.Generator], dict[str, Behaviour]]:
    def behaviours(_: Any, rng: np.random.Generator) -> dict[str, Behaviour]:
        return {f"hits below {most}": (lambda seen, most=most: int(seen[0] < most)) for most in below}

    return behaviours


def balance(seen: Any) -> int:
    return int(seen[2] + 0.3 * seen[3] + 0.03 * seen[0] + 0.05 * seen[1] > 0)


WORLDS = {
    "Blackjack": World(lambda: gymnasium.make("Blackjack-v1"), hits(9, 12, 14, 17, 20), 20_000, 10_000),
    "FrozenLake": World(lambda: gymnasium.make("FrozenLake-v1", is_slippery=True), softmax(0.002, 0.02, 0.2), 60_000, 1_000),
    "CliffWalking": World(
        lambda: gymnasium.make("CliffWalking-v1", is_slippery=True, max_episode_steps=150), softmax(0.3, 1.5, 4.0), 100_000
    ),
    "Taxi": World(lambda: gymnasium.make("Taxi-v4", is_rainy=True), softmax(0.3, 1.0, 3.0), 100_000),
    "CartPole, gusts": World(
        lambda: Gusts(gymnasium.make("CartPole-v1", max_episode_steps=200)), careless(balance, 0.0, 0.3, 0.7), 150_000
    ),
    "MountainCar": World(lambda: gymnasium.make("MountainCar-v0"), careless(lambda seen: 2 if seen[1] >= 0 else 0, 0.05, 0.4, 0.8), 150_000),
    "Acrobot": World(lambda: gymnasium.make("Acrobot-v1"), careless(lambda seen: 2 if seen[5] > 0 else 0, 0.0, 0.5, 1.0), 150_000),
    "Pendulum": World(lambda: gymnasium.make("Pendulum-v1"), swing_up, 100_000),
}


def attempt(name: str, seed: int) -> None:
    world = WORLDS[name]
    rng = np.random.default_rng(seed)
    data = esper.collect(world.make, world.behaviours(world.make(), rng), steps=world.steps, seed=seed)
    means = [float(data.returns[data.behaviour_of == at].mean()) for at in range(len(data.behaviours))]
    began = time.process_time()
    run = esper.train(data, seed=seed, progress=False)
    took = time.process_time() - began
    levels = [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95]
    found = esper.evaluate(run.policy, world.make, levels=levels, episodes=world.episodes, seed=seed + 1_000)
    chosen = esper.evaluate(run.policy, world.make, levels=[run.offline_level], episodes=world.episodes, seed=seed + 2_000)["sweep"][0]
    reach = max(means) - min(means)
    error = np.mean([abs(entry["promise"] - entry["achieved"]) for entry in found["sweep"]]) / reach
    off = (chosen["promise"] - chosen["achieved"]) / reach
    print(
        f"{name:16} {data.episodes:6} {run.condition:10} {min(means):9.2f} {max(means):9.2f} {chosen['promise']:9.2f} "
        f"{chosen['achieved']:9.2f} ± {chosen['stderr']:<6.2f} {off:7.1%} {error:7.1%} {took:6.0f}  {'warned' if run.warnings else ''}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worlds", nargs="*", metavar="WORLD", help=f"some of {', '.join(WORLDS)}; all if none is named")
    parser.add_argument("--seed", type=int, default=0, help="of logs and trainings")
    given = parser.parse_args()
    for name in given.worlds:
        if name not in WORLDS:
            parser.error(f"there is no world {name}; there are {', '.join(WORLDS)}")
    print("world            episodes told          worst      best  promised  achieved             off   error    cpu")
    for name in given.worlds or WORLDS:
        attempt(name, given.seed)


if __name__ == "__main__":
    main()
