"""d3rlpy's CQL on a data file of esper: prints seconds and what it learned about some observations as JSON.

    python cql_peer.py DATA.parquet STEPS ROWS SEED

DATA is what `esper collect` writes. For a choice among actions what is printed are the values of all of them in the
first ROWS observations; for real-valued actions it is the action that would be taken.
"""

import json
import sys
import time

import d3rlpy
import numpy as np
import pyarrow.parquet as pq
import torch

path, steps, rows, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(2)
d3rlpy.seed(seed)

table = pq.read_table(path)
meta = json.loads(pq.ParquetFile(path).metadata.metadata[b"esper"])
space, action_space = meta["observation_space"], meta["action_space"]
discrete = action_space["type"] == "Discrete"
observations = np.array(table["observation"].to_pylist())
if space["type"] == "Discrete":
    observations = np.eye(space["n"], dtype=np.float32)[observations]
observations = observations.astype(np.float32)
actions = np.array(table["action"].to_pylist(), dtype=np.int64 if discrete else np.float32)
actions = actions.reshape(len(actions), -1)
rewards = np.array(table["reward"].to_pylist(), dtype=np.float32).reshape(-1, 1)
terminated = np.array(table["terminated"].to_pylist(), dtype=np.float32)

kind = d3rlpy.ActionSpace.DISCRETE if discrete else d3rlpy.ActionSpace.CONTINUOUS
data = d3rlpy.dataset.MDPDataset(observations, actions, rewards, terminated, action_space=kind)
if discrete:
    config = d3rlpy.algos.DiscreteCQLConfig(
        batch_size=32, learning_rate=6.25e-5, gamma=0.99, target_update_interval=8000, alpha=1.0
    )
else:
    config = d3rlpy.algos.CQLConfig(
        observation_scaler=d3rlpy.preprocessing.StandardObservationScaler(),
        action_scaler=d3rlpy.preprocessing.MinMaxActionScaler(),
    )
cql = config.create(device="cpu:0")
cql.build_with_dataset(data)
start = time.time()
cql.fit(
    data,
    n_steps=steps,
    n_steps_per_epoch=steps,
    show_progress=False,
    logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
)
seconds = time.time() - start
asked = observations[:rows]
if discrete:
    values = [
        cql.predict_value(asked, np.full((len(asked), 1), action))
        for action in range(action_space["n"])
    ]
    learned = np.stack(values, 1)
else:
    learned = cql.predict(asked)
print(json.dumps({"seconds": seconds, "learned": learned.astype(float).tolist()}))
