"""Stable-Baselines3's SAC in a Gymnasium world: prints the steps a second with learning as JSON.

    python sac_peer.py ENVIRONMENT COPIES STEPS RANDOM_STEPS HIDDEN BATCH STEPS_PER_UPDATE

One update for every STEPS_PER_UPDATE steps in all copies together, networks of two hidden layers.
"""

import json
import sys
import time

import gymnasium
import stable_baselines3
import torch
from stable_baselines3.common.vec_env import DummyVecEnv

name, numbers = sys.argv[1], [int(word) for word in sys.argv[2:]]
copies, steps, random_steps, hidden, batch, steps_per_update = numbers
torch.set_num_threads(2)
worlds = DummyVecEnv([lambda: gymnasium.make(name) for _ in range(copies)])
sac = stable_baselines3.SAC(
    "MlpPolicy",
    worlds,
    policy_kwargs={"net_arch": [hidden, hidden]},
    batch_size=batch,
    learning_starts=random_steps,
    train_freq=max(1, steps_per_update // copies),
    gradient_steps=max(1, copies // steps_per_update),
    device="cpu",
    seed=0,
)
sac.learn(random_steps)
start = time.time()
sac.learn(steps, reset_num_timesteps=False)
print(json.dumps({"steps_per_second": steps / (time.time() - start), "updates": sac._n_updates}))
