"""The PyTorch side of `bench/compare`: the paper's training steps as a PyTorch user writes them.

Batches are padded to the longest trajectory, as in the paper's pseudocode.
"""

import torch
import torch.nn.functional as F
from torch import nn

from protocol import serve

torch.set_num_threads(2)

HIDDEN = 512
BATCH = 100


def mlp(inputs, outputs, layers, batch_norm=True):
    sizes = [inputs] + [HIDDEN] * layers
    modules = []
    for a, b in zip(sizes, sizes[1:]):
        modules.append(nn.Linear(a, b))
        if batch_norm:
            modules.append(nn.BatchNorm1d(b))
        modules.append(nn.ReLU())
    return nn.Sequential(*modules, nn.Linear(sizes[-1], outputs))


class ClusterModel(nn.Module):
    def __init__(self, observation, actions, rep_size, rep_groups):
        super().__init__()
        self.rep_size, self.rep_groups = rep_size, rep_groups
        self.encoder = mlp(observation + actions, HIDDEN, 2)
        self.lstm = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.logits = mlp(HIDDEN, rep_size, 1)
        self.action = mlp(observation + rep_size, actions, 2)

    def clusters(self, states, actions):
        batch, time_steps = states.shape[:2]
        x = torch.cat((states, actions), dim=-1).flip(1)
        x = self.encoder(x.reshape(batch * time_steps, -1)).view(batch, time_steps, -1)
        x, _ = self.lstm(x)
        x = self.logits(x.flip(1).reshape(batch * time_steps, -1))
        x = F.gumbel_softmax(x.view(batch, time_steps, self.rep_groups, -1), dim=-1)
        return x.reshape(batch, time_steps, self.rep_size)


def past(clusters):
    """For every step the cluster of a step drawn uniformly from 0..=t of the same trajectory."""
    batch, time_steps, size = clusters.shape
    drawn = (torch.rand(batch, time_steps) * torch.arange(1, time_steps + 1)).long()
    return clusters.gather(1, drawn.unsqueeze(-1).expand(-1, -1, size))


def rows(*parts):
    x = torch.cat(parts, dim=-1)
    return x.reshape(-1, x.shape[-1])


class Clustering:
    """One update of the cluster model, one of the transition predictor with and without clusters."""

    def __init__(self, observation, actions, shortest, longest, one_hot_cells=None):
        self.cluster_model = ClusterModel(observation, actions, 128, 4)
        self.transition = mlp(observation + actions + 128, observation, 2)
        self.cluster_optimizer = torch.optim.AdamW(self.cluster_model.parameters(), lr=1e-4)
        self.transition_optimizer = torch.optim.AdamW(self.transition.parameters(), lr=5e-4)
        self.batches = []
        for _ in range(4):
            lengths = torch.randint(shortest, longest + 1, (BATCH,))
            time_steps = int(lengths.max())
            if one_hot_cells:
                cells = torch.randint(0, observation // one_hot_cells, (BATCH, time_steps + 1, one_hot_cells))
                states = F.one_hot(cells, observation // one_hot_cells).flatten(2).float()
            else:
                states = (torch.rand(BATCH, time_steps + 1, observation) < 0.15).float()
            taken = torch.randint(0, actions, (BATCH, time_steps))
            mask = (torch.arange(time_steps) < lengths.unsqueeze(1)).float()
            self.batches.append((states, taken, F.one_hot(taken, actions).float(), mask))
        self.turn = 0

    def round(self):
        states, taken, actions, mask = self.batches[self.turn % 4]
        self.turn += 1
        now, following = states[:, :-1], states[:, 1:]
        steps = mask.sum()

        clusters = self.cluster_model.clusters(now, actions)
        logits = self.cluster_model.action(rows(now, past(clusters)))
        action_loss = F.cross_entropy(logits, taken.reshape(-1), reduction="none")
        action_loss = (action_loss * mask.reshape(-1)).sum() / steps
        loss = 0.05 * action_loss - self.state_loss(now, actions, past(clusters), following, mask, steps)
        self.cluster_optimizer.zero_grad()
        loss.backward()
        self.cluster_optimizer.step()

        clusters = clusters.detach()
        with_clusters = self.state_loss(now, actions, past(clusters), following, mask, steps)
        without = self.state_loss(now, actions, torch.zeros_like(clusters), following, mask, steps)
        self.transition_optimizer.zero_grad()
        (with_clusters + without).backward()
        self.transition_optimizer.step()

    def state_loss(self, now, actions, clusters, following, mask, steps):
        predicted = self.transition(rows(now, actions, clusters)).view_as(following)
        return ((predicted - following).square().mean(-1) * mask).sum() / steps


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attention = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True
        )
        x = x + self.drop(self.out(attention.transpose(1, 2).reshape(batch, tokens, width)))
        return x + self.drop(self.mlp(self.norm2(x)))


class DecisionTransformer(nn.Module):
    def __init__(self, observation, actions, width=128, layers=3, heads=1, dropout=0.1, longest=42):
        super().__init__()
        self.time = nn.Embedding(longest, width)
        self.label, self.state = nn.Linear(1, width), nn.Linear(observation, width)
        self.action = nn.Linear(actions, width)
        self.norm = nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*[Block(width, heads, dropout) for _ in range(layers)])
        self.last_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, actions)

    def forward(self, labels, states, actions, times):
        batch, context = states.shape[:2]
        time_embedding = self.time(times)
        tokens = torch.stack(
            (
                self.label(labels) + time_embedding,
                self.state(states) + time_embedding,
                self.action(actions) + time_embedding,
            ),
            dim=2,
        ).reshape(batch, 3 * context, -1)
        x = self.last_norm(self.blocks(self.drop(self.norm(tokens))))
        return self.head(x.view(batch, context, 3, -1)[:, :, 1])


def transformer_batch(batch, context=20):
    states = (torch.rand(batch, context, 84) < 0.15).float()
    taken = torch.randint(0, 7, (batch, context))
    times = torch.arange(context).expand(batch, -1)
    return torch.rand(batch, context, 1), states, F.one_hot(taken, 7).float(), times, taken


class Transformer:
    def __init__(self):
        self.model = DecisionTransformer(84, 7)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-4, weight_decay=1e-4)
        self.batches = [transformer_batch(64) for _ in range(4)]
        self.turn = 0

    def round(self):
        *inputs, taken = self.batches[self.turn % 4]
        self.turn += 1
        loss = F.cross_entropy(self.model(*inputs).flatten(0, 1), taken.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.25)
        self.optimizer.step()


class Policy:
    def __init__(self):
        self.model = mlp(85, 7, 3, batch_norm=False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-4, weight_decay=1e-4)
        self.batches = [(torch.rand(BATCH, 85), torch.randint(0, 7, (BATCH,))) for _ in range(4)]
        self.turn = 0

    def round(self):
        inputs, taken = self.batches[self.turn % 4]
        self.turn += 1
        loss = F.cross_entropy(self.model(inputs), taken)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.25)
        self.optimizer.step()


class PolicyActing:
    def __init__(self, episodes):
        self.model = mlp(85, 7, 3, batch_norm=False).eval()
        self.inputs = torch.rand(episodes, 85)

    @torch.inference_mode()
    def round(self):
        torch.distributions.Categorical(logits=self.model(self.inputs)).sample()


class TransformerActing:
    def __init__(self, episodes):
        self.model = DecisionTransformer(84, 7).eval()
        *self.inputs, _ = transformer_batch(episodes)

    @torch.inference_mode()
    def round(self):
        torch.distributions.Categorical(logits=self.model(*self.inputs)[:, -1]).sample()


WORKLOADS = {
    "W1": lambda: Clustering(84, 7, 4, 22),
    "W2": lambda: Clustering(128, 4, 40, 80, one_hot_cells=16),
    "W3": Transformer,
    "W4": Policy,
    "W5-mlp-1": lambda: PolicyActing(1),
    "W5-mlp-100": lambda: PolicyActing(100),
    "W5-transformer-1": lambda: TransformerActing(1),
    "W5-transformer-100": lambda: TransformerActing(100),
}


if __name__ == "__main__":
    torch.manual_seed(0)
    serve(torch.__version__, WORKLOADS)
