"""A Decision Transformer of your own, in PyTorch, on ESPER's labels.

Return conditioning tells a Decision Transformer the return that followed; in a world with luck, it then imitates luck. ESPER's labels are
average returns of behaviours: told those, the very same network asks for what can be had.

    pip install . torch gymnasium
    python examples/python/decision_transformer.py
"""

from __future__ import annotations

import argparse

import gymnasium
import numpy as np
import torch
from torch import nn

import esper


class DecisionTransformer(nn.Module):
    """Label, observation, action of every step are three tokens; actions are predicted where observations are."""

    def __init__(self, observations: int, actions: int, longest: int, width: int = 64) -> None:
        super().__init__()
        self.label = nn.Linear(1, width)
        self.seen = nn.Embedding(observations, width)
        self.done = nn.Embedding(actions, width)
        self.time = nn.Embedding(longest, width)
        layer = nn.TransformerEncoderLayer(width, nhead=2, dim_feedforward=4 * width, batch_first=True, dropout=0.0)
        self.body = nn.TransformerEncoder(layer, num_layers=2)
        self.head = nn.Linear(width, actions)

    def forward(self, labels: torch.Tensor, seen: torch.Tensor, done: torch.Tensor) -> torch.Tensor:
        """Logits of actions, ``[batch, steps, actions]``; the action of a step is not looked at for itself."""
        batch, steps = seen.shape
        time = self.time(torch.arange(steps))
        tokens = torch.stack([self.label(labels[..., None]) + time, self.seen(seen) + time, self.done(done) + time], dim=2)
        tokens = tokens.reshape(batch, 3 * steps, -1)
        mask = nn.Transformer.generate_square_subsequent_mask(3 * steps)
        return self.head(self.body(tokens, mask=mask, is_causal=True)[:, 1::3])


def padded(column: np.ndarray, data: esper.Dataset) -> np.ndarray:
    """A column with one entry a step as ``[episodes, longest]``."""
    rows = np.zeros((data.episodes, int(data.lengths.max())), column.dtype)
    rows[data.episode_ids, data.timesteps] = column
    return rows


def trained(data: esper.Dataset, labels: np.ndarray, steps: int) -> DecisionTransformer:
    """A Decision Transformer that is told these labels."""
    torch.manual_seed(0)
    told = torch.from_numpy(padded(labels, data))
    seen = torch.from_numpy(padded(data.observations.astype(np.int64), data))
    done = torch.from_numpy(padded(data.actions.astype(np.int64), data))
    real = torch.arange(seen.shape[1])[None] < torch.from_numpy(data.lengths)[:, None]
    model = DecisionTransformer(data.observation_space["n"], data.action_space["n"], seen.shape[1])
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        rows = torch.randint(len(seen), (256,))
        logits = model(told[rows], seen[rows], done[rows])
        loss = nn.functional.cross_entropy(logits[real[rows]], done[rows][real[rows]])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


@torch.no_grad()
def achieved(model: DecisionTransformer, target: float, episodes: int) -> float:
    """The mean return where it is asked for a target, in many copies of the world at once."""
    worlds = gymnasium.make_vec("esper/Gambling-v0", num_envs=episodes)
    observation, _ = worlds.reset(seed=0)
    seen, done, told = ([] for _ in range(3))
    left, returns, over = np.full(episodes, target), np.zeros(episodes), np.zeros(episodes, bool)
    while not over.all():
        seen.append(observation)
        told.append(left.copy())
        done.append(np.zeros(episodes, np.int64))
        columns = [np.stack(column, axis=1) for column in (told, seen, done)]
        logits = model(torch.from_numpy(columns[0]).float(), torch.from_numpy(columns[1]), torch.from_numpy(columns[2]))
        done[-1] = torch.distributions.Categorical(logits=logits[:, -1]).sample().numpy()
        observation, rewards, terminated, truncated, _ = worlds.step(done[-1])
        returns += np.where(over, 0.0, rewards)
        left = left - np.where(over, 0.0, rewards)
        over |= terminated | truncated
    return float(returns.mean())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=1_000, help="of training the Decision Transformer")
    options.add_argument("--episodes", type=int, default=1_000)
    chosen = options.parse_args()

    data = esper.collect("gambling", steps=20_000)
    run = esper.train(data)
    for name, labels in (("observed returns", data.returns_to_go()), ("ESPER's labels", run.labels)):
        model = trained(data, labels, chosen.steps)
        print(f"{name}: asked for 1, got {achieved(model, 1.0, chosen.episodes):.2f}")


if __name__ == "__main__":
    main()
