"""Acting."""

from __future__ import annotations

import pickle
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY

import esper


@pytest.fixture(scope="module")
def policy(trained: esper.Run) -> esper.Policy:
    return esper.load(trained.path)


def test_one_and_many(policy: esper.Policy) -> None:
    action = policy.act(0, level=0.9)
    assert isinstance(action, int) and 0 <= action < 3
    assert isinstance(policy.act(np.array(0)), int)
    actions = policy.act(np.array([0, 1, 2, 0]), level=0.9)
    assert actions.shape == (4,) and actions.dtype == np.int64
    assert policy.act([0, 1], level=0.9).shape == (2,)


def test_the_same_seed_draws_the_same(policy: esper.Policy) -> None:
    def draws(seed: int) -> list[int]:
        session = policy.session(level=0.5, seed=seed)
        drawn = []
        for _ in range(40):
            drawn.append(session.act(0))
            session.reset()
        return drawn

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)


def test_probabilities_are_what_is_drawn_from(policy: esper.Policy) -> None:
    session = policy.session(level=0.5)
    actions, likely = session.act(np.zeros(4_000, int), probabilities=True)
    assert likely.shape == (4_000, 3)
    np.testing.assert_allclose(likely.sum(axis=1), 1, atol=1e-5)
    shares = np.bincount(actions, minlength=3) / 4_000
    np.testing.assert_allclose(shares, likely[0], atol=0.04)
    greedy = session.act(np.zeros(10, int), greedy=True)
    assert set(greedy.tolist()) == {int(likely[0].argmax())}


def test_levels_and_targets_are_checked(policy: esper.Policy) -> None:
    for arguments in ({"level": 1.5}, {"target": float("nan")}, {"level": 0.5, "target": 1.0}):
        with pytest.raises(esper.PolicyError):
            policy.act(0, **arguments)
    for observation in (9, -1, np.zeros((2, 2)), 0.5):
        with pytest.raises((esper.PolicyError, esper.DataError)):
            policy.act(observation)


def test_rewards_are_taken_off_a_target(policy: esper.Policy) -> None:
    """A policy that is told returns, asked for 1 and paid 1, is then told 0: as one that was asked for 0."""
    paid, unpaid = policy.session(target=1.0), policy.session(target=0.0)
    paid.act(0)
    paid.reward(1.0)
    unpaid.act(0)
    unpaid.reward(0.0)
    first = paid.act(np.array(1), probabilities=True)[1]
    second = unpaid.act(np.array(1), probabilities=True)[1]
    np.testing.assert_array_equal(first, second)
    with pytest.raises(esper.PolicyError, match="2 rewards for 1"):
        paid.reward([1.0, 2.0])


def test_some_episodes_begin_anew(policy: esper.Policy) -> None:
    session = policy.session(target=1.0)
    session.act(np.zeros(3, int))
    session.reward([1.0, 1.0, 1.0])
    session.reset(np.array([False, True, False]))
    likely = session.act(np.zeros(3, int), probabilities=True)[1]
    fresh = policy.session(target=1.0).act(0, probabilities=True)[1]
    np.testing.assert_allclose(likely[1], fresh, atol=1e-6)
    np.testing.assert_allclose(likely[0], likely[2], atol=1e-6)
    assert abs(likely[0] - fresh).max() > 1e-3


def test_it_is_pickled_and_written(policy: esper.Policy, tmp_path: Path) -> None:
    path = policy.write(tmp_path / "policy.safetensors")
    for other in (pickle.loads(pickle.dumps(policy)), esper.load(path)):
        assert other.card == policy.card
        pair = [each.session(level=0.9).act(np.arange(7), probabilities=True)[1] for each in (other, policy)]
        np.testing.assert_array_equal(*pair)
    assert policy.to_onnx(tmp_path / "policy.onnx").stat().st_size > 100
    (tmp_path / "damaged.safetensors").write_bytes(path.read_bytes()[:50])
    with pytest.raises(esper.PolicyError):
        esper.load(tmp_path / "damaged.safetensors")
    with pytest.raises(FileNotFoundError):
        esper.load(tmp_path / "nothing")


def test_threads_have_episodes_of_their_own(policy: esper.Policy) -> None:
    found: dict[int, list[int]] = {}

    def act(thread: int) -> None:
        policy.reset(level=0.5, seed=7)
        found[thread] = [policy.act(0) for _ in range(300)]

    threads = [threading.Thread(target=act, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(drawn == found[0] for drawn in found.values())


def test_a_session_that_is_shared_stays_whole(policy: esper.Policy) -> None:
    session = policy.session(level=0.5)
    threads = [
        threading.Thread(target=lambda rows=rows: [session.act(np.zeros(rows, int)) for _ in range(50)])
        for rows in (1, 2, 100)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.act(np.zeros(5, int)).shape == (5,)


def test_promises_are_asked_for(policy: esper.Policy, trained: esper.Run) -> None:
    promise = policy.promise(level=0.5)
    assert promise is not None and promise["supported"] is not None
    chosen = policy.promise()
    assert chosen is not None and chosen["target"] == pytest.approx(trained.offline_target)


def test_words_in_and_out(patients_csv: Path) -> None:
    """A policy of a table is asked by the names of columns, and answers in its words."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(patients_csv)
    data = esper.Dataset.from_pandas(frame, episode="patient", time="day", action="treatment", reward="outcome")
    policy = esper.train(data, "rvs", progress=False, settings=TINY).policy
    assert policy.act({"age": 50.0, "ward": "A"}) in ("drug", "none")
    assert policy.act({"age": 50.0, "ward": "A"}, words=False) in (0, 1)
    columns = {"age": [50.0, 60.0], "ward": ["A", "B"]}
    rows = [{"age": 50.0, "ward": "A"}, {"age": None, "ward": "B"}]
    for given in (columns, rows, pandas.DataFrame(rows)):
        actions = policy.act(given)
        assert len(actions) == 2 and set(actions) <= {"drug", "none"}
    assert policy.act(frame.loc[0, ["age", "ward"]]) in ("drug", "none")
    with pytest.raises(esper.PolicyError, match="`ward` is \"C\""):
        policy.act({"age": 50.0, "ward": "C"})
    with pytest.raises(esper.PolicyError, match="no column `wart`"):
        policy.act({"age": 50.0, "wart": "A"})
    with pytest.warns(UserWarning, match="was 20.5 to"):
        policy.act({"age": 900.0, "ward": "A"})


def test_policies_that_cannot_be_asked_say_so(gambling: esper.Dataset) -> None:
    policy = esper.train(gambling, "bc", progress=False, settings=TINY).policy
    assert not policy.has_targets and policy.promise() is None
    with pytest.warns(UserWarning, match="cannot be asked"):
        policy.reset(level=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert policy.act(0) in (0, 1, 2)


def test_a_transformer_remembers(gambling: esper.Dataset) -> None:
    settings = {"transformer.steps": 30, "transformer.layers": 1, "transformer.heads": 1, "transformer.width": 16}
    policy = esper.train(gambling, "rvs", "transformer", progress=False, settings=settings).policy
    session = policy.session(target=1.0)
    first = session.act(0, probabilities=True)[1]
    session.reward(0.0)
    session.act(1)
    session.reset()
    again = session.act(0, probabilities=True)[1]
    np.testing.assert_allclose(first, again, atol=1e-6)


def test_one_observation_is_quick(policy: esper.Policy) -> None:
    """All of it, network included; on a machine that is not busy it is a thousandth of this."""
    observation = np.array(0)
    policy.act(observation, level=0.9)
    best = min(_seconds(policy, observation) for _ in range(10))
    assert best / 200 < 20e-3


def _seconds(policy: esper.Policy, observation: np.ndarray) -> float:
    started = time.perf_counter()
    for _ in range(200):
        policy.act(observation)
    return time.perf_counter() - started
