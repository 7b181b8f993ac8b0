"""d3rlpy's discrete CQL on a data file of esper: prints seconds and the values of some observations as JSON.

    python cql_peer.py DATA.parquet STEPS ROWS

DATA is what `esper collect` writes; the values are those of all actions in its first ROWS observations.
"""

import json
import sys
import time

import d3rlpy
import numpy as np
import pyarrow.parquet as pq
import torch

path, steps, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(2)
d3rlpy.seed(0)

table = pq.read_table(path)
meta = json.loads(pq.ParquetFile(path).metadata.metadata[b"esper"])
space, actions_n = meta["observation_space"], meta["action_space"]["n"]
observations = np.array(table["observation"].to_pylist())
if space["type"] == "Discrete":
    observations = np.eye(space["n"], dtype=np.float32)[observations]
observations = observations.astype(np.float32)
actions = np.array(table["action"].to_pylist(), dtype=np.int64).reshape(-1, 1)
rewards = np.array(table["reward"].to_pylist(), dtype=np.float32).reshape(-1, 1)
terminated = np.array(table["terminated"].to_pylist(), dtype=np.float32)

data = d3rlpy.dataset.MDPDataset(
    observations, actions, rewards, terminated, action_space=d3rlpy.ActionSpace.DISCRETE
)
cql = d3rlpy.algos.DiscreteCQLConfig(
    batch_size=32, learning_rate=6.25e-5, gamma=0.99, target_update_interval=8000, alpha=1.0
).create(device="cpu:0")
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
values = [
    cql.predict_value(asked, np.full((len(asked), 1), action)) for action in range(actions_n)
]
print(json.dumps({"seconds": seconds, "values": np.stack(values, 1).astype(float).tolist()}))
