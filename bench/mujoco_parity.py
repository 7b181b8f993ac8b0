"""Holds our MuJoCo worlds beside Gymnasium's: models, and 1,000 random steps of each of the six.

    pip install mujoco gymnasium imageio packaging
    python bench/mujoco_parity.py [--steps N] [--golden]

Models are compiled by MuJoCo and compared number by number, all but what is only drawn. Then Gymnasium plays, once with actions
within their bounds and once with some beyond, and our world is started where each of its episodes starts and given the same
actions. Both have to give the same numbers: positions and velocities to the last of their 64 bits, observations and rewards to
the last of the 32 that we keep, the same ends at the same steps. Exit status 1 if anything differs. --golden writes the first
steps of each as crates/esper-tasks/tests/mujoco/TASK.txt, which the tests play again.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import gymnasium
import mujoco
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "crates/esper-tasks/src/mujoco"
GOLDEN = ROOT / "crates/esper-tasks/tests/mujoco"
GOLDEN_STEPS = 50

# Gymnasium's world, our task, our model, what stands for its placeholder.
WORLDS = [
    ("Hopper-v5", "hopper", "hopper.xml", None),
    ("Hopper-v4", "hopper-v4", "hopper.xml", None),
    ("Walker2d-v5", "walker2d", "walker2d.xml", "1.9"),
    ("Walker2d-v4", "walker2d-v4", "walker2d.xml", "0.9"),
    ("HalfCheetah-v5", "halfcheetah", "halfcheetah.xml", None),
    ("HalfCheetah-v4", "halfcheetah", "halfcheetah.xml", None),
]

# What is drawn, what it is called, and how much memory there is.
NOT_PHYSICS = ("cam_", "light_", "mat_", "tex_", "name", "vis", "geom_rgba", "geom_matid", "geom_user")
NOT_PHYSICS += ("ncam", "nlight", "nmat", "ntex", "nnames", "nuser", "narena", "nbuffer", "signature", "text")


def numbers_of(thing):
    """All numbers and arrays of a structure that matter to what happens."""
    names = [name for name in dir(thing) if not name.startswith(("_",) + NOT_PHYSICS)]
    values = {name: getattr(thing, name) for name in names}
    return {name: value for name, value in values.items() if isinstance(value, (int, float, np.ndarray))}


def differing(theirs, ours):
    """Names of what differs between two compiled models, in the last digit or more."""
    found = []
    for part in ("", "opt"):
        a, b = (numbers_of(getattr(model, part) if part else model) for model in (theirs, ours))
        found += [name for name in a if not np.array_equal(a[name], b[name], equal_nan=True)]
    return found


def play(env, steps, reach, seed):
    """Random steps in Gymnasium, actions up to `reach`: a list of episodes, each its start and its steps."""
    random = np.random.default_rng(seed)
    data = env.unwrapped.data
    episodes, over = [], True
    for count in range(steps):
        if over:
            env.reset(seed=seed + count)
            start = np.concatenate([data.qpos, data.qvel])
            episodes.append((start, []))
        # Few digits, so that golden traces are small.
        action = np.round(random.uniform(-reach, reach, env.action_space.shape), 2).astype(np.float32)
        seen, reward, terminated, truncated, _ = env.step(action)
        state = np.concatenate([data.qpos, data.qvel])
        episodes[-1][1].append((action, state, seen, reward, terminated, truncated))
        over = terminated or truncated
    return episodes


def words(numbers):
    return " ".join(str(number) for number in np.asarray(numbers).tolist())


def short(numbers):
    """Numbers of 32 bits, in as few digits as tell them apart."""
    return " ".join(str(number) for number in np.asarray(numbers, dtype=np.float32))


def ask_ours(task, episodes):
    """What our world gives for the same starts and actions: one list of steps."""
    orders = []
    for start, steps in episodes:
        orders.append("start " + words(start))
        orders += ["step " + words(step[0]) for step in steps]
    command = ["cargo", "run", "--quiet", "--release", "--locked", "-p", "esper-tasks", "--example", "mujoco_trace", "--", task]
    # The library that Gymnasium uses, too.
    environment = {**os.environ, "MUJOCO_PATH": str(Path(mujoco.__file__).parent)}
    said = subprocess.run(
        command, input="\n".join(orders) + "\n", capture_output=True, text=True, cwd=ROOT, env=environment
    )
    if said.returncode != 0:
        sys.exit(said.stderr)
    answers = []
    for order, line in zip(orders, said.stdout.splitlines(), strict=True):
        if order.startswith("step"):
            positions, velocities, seen, reward, ends = (part.split() for part in line.split(";"))
            answers.append(
                (
                    np.array(positions + velocities, dtype=np.float64),
                    np.array(seen, dtype=np.float32),
                    np.float32(reward[0]),
                    [end == "1" for end in ends],
                )
            )
    return answers


def compare(task, episodes):
    """The largest differences of states, observations and rewards, and how many ends differ."""
    theirs = [step for _, steps in episodes for step in steps]
    state = observation = pay = 0.0
    ends = 0
    for (_, q, seen, reward, terminated, truncated), ours in zip(theirs, ask_ours(task, episodes), strict=True):
        # These maxima, unlike Python's, do not lose what is not a number.
        state = np.maximum(state, np.abs(q - ours[0]).max())
        observation = np.maximum(observation, np.abs(seen.astype(np.float32) - ours[1]).max())
        pay = np.maximum(pay, abs(np.float32(reward) - ours[2]))
        ends += [bool(terminated), bool(truncated)] != ours[3]
    return state, observation, pay, ends


def write_golden(task, episodes):
    lines = [f"# {task}: Gymnasium {gymnasium.__version__}, MuJoCo {mujoco.__version__}, by bench/mujoco_parity.py --golden"]
    lines.append("# start: positions; velocities. step: action; observation; reward; terminated truncated")
    left = GOLDEN_STEPS
    for start, steps in episodes:
        if left == 0:
            break
        half = len(start) // 2
        lines.append(f"start {words(start[:half])}; {words(start[half:])}")
        for action, _, seen, reward, terminated, truncated in steps[:left]:
            ends = f"{int(terminated)} {int(truncated)}"
            lines.append(f"step {short(action)}; {short(seen)}; {short([reward])}; {ends}")
            left -= 1
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / f"{task}.txt").write_text("\n".join(lines) + "\n")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--steps", type=int, default=1_000, help="random steps of each world")
    arguments.add_argument("--golden", action="store_true", help="write golden traces for the tests")
    asked = arguments.parse_args()
    # MuJoCo warns of an attribute in Gymnasium's model of the cheetah, and writes that into a file where it is.
    os.chdir(tempfile.mkdtemp())
    # Gymnasium warns that version 4 is old, and of actions beyond their bounds.
    warnings.simplefilter("ignore")
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    print(f"Gymnasium {gymnasium.__version__}, MuJoCo {mujoco.__version__}, largest differences")
    print(f"{'world':16}{'model':>8}{'actions':>9}{'steps':>7}{'episodes':>10}{'state':>9}{'seen':>9}{'reward':>9}{'ends':>6}")
    equal = True
    for world, task, model, placeholder in WORLDS:
        env = gymnasium.make(world)
        xml = (MODELS / model).read_text().replace("RIGHT_FOOT_FRICTION", placeholder or "")
        wrong = differing(env.unwrapped.model, mujoco.MjModel.from_xml_string(xml))
        equal &= not wrong
        for reach in (1.0, 2.0):
            episodes = play(env, asked.steps, reach, seed=0)
            state, seen, reward, ends = compare(task, episodes)
            equal &= (state, seen, reward, ends) == (0, 0, 0, 0)
            bounds = f"±{reach:g}"
            print(
                f"{world:16}{'differs' if wrong else 'equal':>8}{bounds:>9}{asked.steps:>7}{len(episodes):>10}"
                f"{state:>9.2g}{seen:>9.2g}{reward:>9.2g}{ends:>6}"
            )
            if asked.golden and reach == 1.0 and not world.startswith("HalfCheetah-v4"):
                write_golden(task, episodes)
        if wrong:
            print("  in the model:", ", ".join(wrong))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
