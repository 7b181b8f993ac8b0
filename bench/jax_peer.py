"""The JAX side of `bench/compare`: the paper's training steps as somebody who knows JAX writes them.

Every step is one compiled function: forward, gradients and the optimisers' updates, in which XLA is free to share and to
fuse; its arguments are given away, so that nothing is copied. Batches are padded to the longest trajectory there is, so
that the function is compiled once. The input product of the LSTM is taken out of its loop, and both gradients of the
transition loss come from one pass. Noise comes from XLA's own generator, which is faster than JAX's default.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from protocol import serve

jax.config.update("jax_default_prng_impl", "unsafe_rbg")

HIDDEN = 512
BATCH = 100
NUMPY = np.random.default_rng(0)


def uniform(key, shape, fan_in):
    bound = fan_in**-0.5
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def linear_init(key, inputs, outputs):
    return {"w": uniform(key, (inputs, outputs), inputs), "b": jnp.zeros(outputs)}


def linear(params, x):
    return x @ params["w"] + params["b"]


def mlp_init(key, inputs, outputs, layers, batch_norm=True):
    sizes = [inputs] + [HIDDEN] * layers
    keys = jax.random.split(key, layers + 1)
    hidden = []
    for at, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layer = linear_init(keys[at], a, b)
        if batch_norm:
            layer |= {"gamma": jnp.ones(b), "beta": jnp.zeros(b)}
        hidden.append(layer)
    return {"hidden": hidden, "output": linear_init(keys[-1], sizes[-1], outputs)}


def mlp(params, x):
    for layer in params["hidden"]:
        x = linear(layer, x)
        if "gamma" in layer:
            x = (x - x.mean(0)) * jax.lax.rsqrt(x.var(0) + 1e-5) * layer["gamma"] + layer["beta"]
        x = jax.nn.relu(x)
    return linear(params["output"], x)


def lstm_init(key, inputs, hidden):
    keys = jax.random.split(key, 2)
    return {
        "input": uniform(keys[0], (inputs, 4 * hidden), hidden),
        "hidden": uniform(keys[1], (hidden, 4 * hidden), hidden),
        "b": jnp.zeros(4 * hidden),
    }


def lstm(params, x):
    """`x` is [time, batch, inputs]; runs from the last time to the first."""
    gates = x @ params["input"] + params["b"]
    zeros = jnp.zeros((x.shape[1], params["hidden"].shape[0]))

    def step(carry, gates):
        hidden, cell = carry
        i, f, g, o = jnp.split(gates + hidden @ params["hidden"], 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    return jax.lax.scan(step, (zeros, zeros), gates, reverse=True)[1]


def cross_entropy(logits, taken):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), taken[..., None], axis=-1)[..., 0]


class Clustering:
    """One update of the cluster model, one of the transition predictor with and without clusters."""

    def __init__(self, observation, actions, shortest, longest, one_hot_cells=None, rep_size=128, groups=4):
        keys = jax.random.split(jax.random.key(0), 6)
        cluster_model = {
            "encoder": mlp_init(keys[0], observation + actions, HIDDEN, 2),
            "lstm": lstm_init(keys[1], HIDDEN, HIDDEN),
            "logits": mlp_init(keys[2], HIDDEN, rep_size, 1),
            "action": mlp_init(keys[3], observation + rep_size, actions, 2),
        }
        transition = mlp_init(keys[4], observation + actions + rep_size, observation, 2)
        cluster_optimizer, transition_optimizer = optax.adamw(1e-4), optax.adamw(5e-4)
        self.state = (
            cluster_model,
            transition,
            cluster_optimizer.init(cluster_model),
            transition_optimizer.init(transition),
            keys[5],
        )
        self.batches = []
        for _ in range(4):
            # Time first, as the scan wants it.
            lengths = NUMPY.integers(shortest, longest + 1, BATCH)
            shape = (longest + 1, BATCH)
            if one_hot_cells:
                categories = observation // one_hot_cells
                cells = NUMPY.integers(0, categories, (*shape, one_hot_cells))
                states = np.eye(categories, dtype=np.float32)[cells].reshape(*shape, observation)
            else:
                states = (NUMPY.random((*shape, observation)) < 0.15).astype(np.float32)
            taken = NUMPY.integers(0, actions, (longest, BATCH))
            mask = (np.arange(longest)[:, None] < lengths).astype(np.float32)
            self.batches.append(tuple(map(jnp.asarray, (states, taken, mask))))
        self.turn = 0

        def clusters_of(params, now, actions_taken, key):
            x = mlp(params["encoder"], jnp.concatenate((now, actions_taken), -1).reshape(longest * BATCH, -1))
            x = lstm(params["lstm"], x.reshape(longest, BATCH, HIDDEN))
            logits = mlp(params["logits"], x.reshape(longest * BATCH, HIDDEN))
            logits = logits.reshape(longest, BATCH, groups, rep_size // groups)
            noise = jax.random.gumbel(key, logits.shape)
            return jax.nn.softmax(logits + noise).reshape(longest, BATCH, rep_size)

        def past(clusters, key):
            """For every step the cluster of a step drawn uniformly from 0..=t of the same trajectory."""
            drawn = jax.random.uniform(key, (longest, BATCH)) * jnp.arange(1, longest + 1)[:, None]
            return clusters[drawn.astype(jnp.int32), jnp.arange(BATCH)]

        def state_loss(params, now, actions_taken, clusters, following, mask):
            x = jnp.concatenate((now, actions_taken, clusters), -1).reshape(longest * BATCH, -1)
            error = jnp.square(mlp(params, x).reshape(following.shape) - following).mean(-1)
            return (error * mask).sum() / mask.sum()

        @partial(jax.jit, donate_argnums=0)
        def step(state, batch):
            cluster_model, transition, cluster_state, transition_state, key = state
            states, taken, mask = batch
            now, following = states[:-1], states[1:]
            actions_taken = jax.nn.one_hot(taken, actions)
            key, noise, action_past, state_past = jax.random.split(key, 4)

            def of_clusters(params):
                clusters = clusters_of(params, now, actions_taken, noise)
                seen = jnp.concatenate((now, past(clusters, action_past)), -1).reshape(longest * BATCH, -1)
                loss = cross_entropy(mlp(params["action"], seen), taken.reshape(-1))
                return 0.05 * (loss * mask.reshape(-1)).sum() / mask.sum(), past(clusters, state_past)

            (_, clusters), cluster_vjp = jax.vjp(of_clusters, cluster_model)
            with_clusters = lambda params, clusters: state_loss(params, now, actions_taken, clusters, following, mask)
            gradient, clusters_gradient = jax.grad(with_clusters, (0, 1))(transition, clusters)
            cluster_gradient = cluster_vjp((jnp.ones(()), -clusters_gradient))[0]
            without = jax.grad(with_clusters)(transition, jnp.zeros_like(clusters))
            gradient = jax.tree.map(jnp.add, gradient, without)

            updates, cluster_state = cluster_optimizer.update(cluster_gradient, cluster_state, cluster_model)
            cluster_model = optax.apply_updates(cluster_model, updates)
            updates, transition_state = transition_optimizer.update(gradient, transition_state, transition)
            transition = optax.apply_updates(transition, updates)
            return cluster_model, transition, cluster_state, transition_state, key

        self.step = step

    def round(self):
        self.state = jax.block_until_ready(self.step(self.state, self.batches[self.turn % 4]))
        self.turn += 1


def layer_norm(params, x):
    x = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * params["gamma"] + params["beta"]


def dropout(x, rate, key):
    if key is None:
        return x
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


def transformer_init(key, observation, actions, width=128, layers=3, longest=42):
    keys = iter(jax.random.split(key, 5 + 4 * layers))
    norm = lambda: {"gamma": jnp.ones(width), "beta": jnp.zeros(width)}
    return {
        "time": jax.random.normal(next(keys), (longest, width)),
        "label": linear_init(next(keys), 1, width),
        "state": linear_init(next(keys), observation, width),
        "action": linear_init(next(keys), actions, width),
        "norm": norm(),
        "blocks": [
            {
                "norm1": norm(),
                "norm2": norm(),
                "qkv": linear_init(next(keys), width, 3 * width),
                "out": linear_init(next(keys), width, width),
                "up": linear_init(next(keys), width, 4 * width),
                "down": linear_init(next(keys), 4 * width, width),
            }
            for _ in range(layers)
        ],
        "last_norm": norm(),
        "head": linear_init(next(keys), width, actions),
    }


def transformer(params, labels, states, actions, times, key=None, rate=0.1):
    """One head, as in the paper. Without a key nothing is dropped."""
    batch, context = states.shape[:2]
    blocks = params["blocks"]
    keys = iter([None] * (1 + 3 * len(blocks)) if key is None else jax.random.split(key, 1 + 3 * len(blocks)))
    time = params["time"][times]
    embedded = [linear(params[name], x) + time for name, x in (("label", labels), ("state", states), ("action", actions))]
    x = jnp.stack(embedded, axis=2).reshape(batch, 3 * context, -1)
    x = dropout(layer_norm(params["norm"], x), rate, next(keys))
    causal = jnp.tril(jnp.ones((3 * context, 3 * context), bool))
    for block in blocks:
        q, k, v = jnp.split(linear(block["qkv"], layer_norm(block["norm1"], x)), 3, axis=-1)
        scores = jnp.einsum("bqw,bkw->bqk", q, k) * q.shape[-1] ** -0.5
        weights = dropout(jax.nn.softmax(jnp.where(causal, scores, -jnp.inf)), rate, next(keys))
        x = x + dropout(linear(block["out"], jnp.einsum("bqk,bkw->bqw", weights, v)), rate, next(keys))
        hidden = jax.nn.relu(linear(block["up"], layer_norm(block["norm2"], x)))
        x = x + dropout(linear(block["down"], hidden), rate, next(keys))
    x = layer_norm(params["last_norm"], x)
    return linear(params["head"], x.reshape(batch, context, 3, -1)[:, :, 1])


def transformer_batch(batch, context=20):
    states = (NUMPY.random((batch, context, 84)) < 0.15).astype(np.float32)
    taken = NUMPY.integers(0, 7, (batch, context))
    times = np.broadcast_to(np.arange(context), (batch, context))
    labels = NUMPY.random((batch, context, 1), dtype=np.float32)
    return tuple(map(jnp.asarray, (labels, states, np.eye(7, dtype=np.float32)[taken], times, taken)))


class Supervised:
    """Steps of cross-entropy with AdamW and clipped gradients, on four batches in turn. `loss(params, batch, key)`."""

    def __init__(self, params, batches, loss):
        self.batches, self.turn = batches, 0
        optimizer = optax.chain(optax.clip_by_global_norm(0.25), optax.adamw(5e-4, weight_decay=1e-4))
        self.state = (params, optimizer.init(params), jax.random.key(1))

        @partial(jax.jit, donate_argnums=0)
        def step(state, batch):
            params, optimizer_state, key = state
            key, noise = jax.random.split(key)
            gradient = jax.grad(loss)(params, batch, noise)
            updates, optimizer_state = optimizer.update(gradient, optimizer_state, params)
            return optax.apply_updates(params, updates), optimizer_state, key

        self.step = step

    def round(self):
        self.state = jax.block_until_ready(self.step(self.state, self.batches[self.turn % 4]))
        self.turn += 1


def transformer_training():
    def loss(params, batch, key):
        *inputs, taken = batch
        return cross_entropy(transformer(params, *inputs, key=key), taken).mean()

    params = transformer_init(jax.random.key(0), 84, 7)
    return Supervised(params, [transformer_batch(64) for _ in range(4)], loss)


def policy_training():
    def batch():
        inputs, taken = NUMPY.random((BATCH, 85), dtype=np.float32), NUMPY.integers(0, 7, BATCH)
        return jnp.asarray(inputs), jnp.asarray(taken)

    loss = lambda params, batch, _: cross_entropy(mlp(params, batch[0]), batch[1]).mean()
    params = mlp_init(jax.random.key(0), 85, 7, 3, batch_norm=False)
    return Supervised(params, [batch() for _ in range(4)], loss)


class Acting:
    """Actions drawn from `logits(params, inputs)`."""

    def __init__(self, params, inputs, logits):
        self.params, self.inputs, self.key = params, inputs, jax.random.key(0)

        @jax.jit
        def act(params, inputs, key):
            key, noise = jax.random.split(key)
            return jax.random.categorical(noise, logits(params, inputs)), key

        self.act = act

    def round(self):
        actions, self.key = self.act(self.params, self.inputs, self.key)
        np.asarray(actions)


def policy_acting(episodes):
    params = mlp_init(jax.random.key(0), 85, 7, 3, batch_norm=False)
    return Acting(params, jnp.asarray(NUMPY.random((episodes, 85), dtype=np.float32)), mlp)


def transformer_acting(episodes):
    *inputs, _ = transformer_batch(episodes)
    params = transformer_init(jax.random.key(0), 84, 7)
    return Acting(params, inputs, lambda params, inputs: transformer(params, *inputs)[:, -1])


WORKLOADS = {
    "W1": lambda: Clustering(84, 7, 4, 22),
    "W2": lambda: Clustering(128, 4, 40, 80, one_hot_cells=16),
    "W3": transformer_training,
    "W4": policy_training,
    "W5-mlp-1": lambda: policy_acting(1),
    "W5-mlp-100": lambda: policy_acting(100),
    "W5-transformer-1": lambda: transformer_acting(1),
    "W5-transformer-100": lambda: transformer_acting(100),
}


if __name__ == "__main__":
    serve(jax.__version__, WORKLOADS)
