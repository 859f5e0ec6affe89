"""Teach a network to swing a pendulum up and hold it there, by trying: deep Q-learning.

    dtfctl submit examples/pendulum_dqn.py [--steps 5000] [--picture pendulum_dqn.png]

The motor is too weak to lift the pendulum: it has to swing to and fro first, away from where it shall be. Nobody shows
it how; all it is told is how far from upright it is. The network learns what each of three torques is worth in each
state: the reward of the moment, and what the best torque will be worth in the state that comes of it.
Run without a cluster (`python examples/pendulum_dqn.py`) it trains in one process.
"""

import argparse
import os
import sys

import numpy as np

import dtfctl.runtime as tf

TORQUES, MOMENT, LENGTH = np.array([-2.0, 0.0, 2.0]), 0.05, 200  # the weight alone pulls with up to 5
DISCOUNT, PENDULUMS, REMEMBERED = 0.98, 16, 50_000


class Pendulums:
    """Rods of length 1 and mass 1 that hang on a motor, each at an angle from upright and turning at a speed."""

    def __init__(self, count, draw):
        self.angle, self.speed = draw.uniform(-np.pi, np.pi, count), draw.uniform(-1, 1, count)

    def seen(self):
        """What the network sees of each: [count, 3]."""
        return np.stack([np.cos(self.angle), np.sin(self.angle), self.speed / 8], axis=1).astype(np.float32)

    def turn(self, choice):
        """Turn each by one of TORQUES for a moment; give the rewards, from -1 to 0."""
        torque = TORQUES[choice]
        reward = -(self.angle**2 + 0.1 * self.speed**2 + 0.001 * torque**2) / 16.3
        self.speed = np.clip(self.speed + MOMENT * (15 * np.sin(self.angle) + 3 * torque), -8, 8)
        self.angle = (self.angle + MOMENT * self.speed + np.pi) % (2 * np.pi) - np.pi
        return reward.astype(np.float32)


class Memory:
    """The last moments that were lived through: (seen, choice, reward, seen after it)."""

    def __init__(self):
        self.before, self.after = np.zeros((2, REMEMBERED, 3), np.float32)
        self.choice, self.reward = np.zeros(REMEMBERED, np.int64), np.zeros(REMEMBERED, np.float32)
        self.count = 0

    def add(self, before, choice, reward, after):
        at = (self.count + np.arange(len(choice))) % REMEMBERED
        self.before[at], self.choice[at], self.reward[at], self.after[at] = before, choice, reward, after
        self.count += len(choice)

    def some(self, size, draw):
        rows = draw.integers(min(self.count, REMEMBERED), size=size)
        return self.before[rows], self.choice[rows], self.reward[rows], self.after[rows]


def worth(seen, name):
    """The graph: what each torque is worth in each state."""
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        hidden = tf.layers.dense(seen, 64, activation=tf.nn.relu, name="first")
        hidden = tf.layers.dense(hidden, 64, activation=tf.nn.relu, name="second")
        return tf.layers.dense(hidden, len(TORQUES), name="worth")


def play(choose, count=100, hanging=False):
    """Play with many pendulums: (angles [LENGTH, count], speeds of that form, mean sum of the rewards)."""
    pendulums = Pendulums(count, np.random.default_rng(99))
    if hanging:
        pendulums.angle, pendulums.speed = np.full(count, np.pi), np.linspace(-1, 1, count)
    angles, speeds, total = [], [], np.zeros(count)
    for _ in range(LENGTH):
        total += pendulums.turn(choose(pendulums.seen()))
        angles.append(pendulums.angle)
        speeds.append(pendulums.speed)
    return np.array(angles), np.array(speeds), total.mean()


def upright(angles):
    """Share of the last half of the time in which the pendulums are within 15 degrees of upright."""
    return (np.abs(angles[LENGTH // 2 :]) < np.radians(15)).mean()


def played(learned):
    """Play by the best torque of each moment, in this process: (angles, mean sum of the rewards, swings, map)."""
    with tf.Graph().as_default(), tf.Session() as session:
        seen = tf.placeholder(tf.float32, [None, 3])
        values = worth(seen, "learner")
        for variable, value in zip(tf.trainable_variables(), learned):
            variable.load(value, session)

        def best(states):
            return session.run(values, {seen: states}).argmax(axis=1)

        angles, _, total = play(best)
        swings = play(best, count=2, hanging=True)[:2]
        everywhere = Pendulums(121 * 81, np.random.default_rng(0))
        angle, speed = np.meshgrid(np.linspace(-np.pi, np.pi, 121), np.linspace(-8, 8, 81))
        everywhere.angle, everywhere.speed = angle.ravel(), speed.ravel()
        return (
            angles,
            total,
            swings,
            (angle, speed, session.run(values, {seen: everywhere.seen()}).reshape(81, 121, -1)),
        )


def picture(file, swings, states):
    """Write what each state is worth, and the torque chosen there, with two swings from hanging down."""
    from matplotlib import pyplot

    (angle, speed, values), (angles, speeds) = states, swings
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    shown = axes[0].contourf(np.degrees(angle), speed, values.max(axis=2), 24, cmap="viridis")
    figure.colorbar(shown, ax=axes[0], label="rewards to come, the later the less")
    axes[1].contourf(
        np.degrees(angle),
        speed,
        TORQUES[values.argmax(axis=2)],
        [-3, -1, 1, 3],
        colors=["#4575b4", "#f7f7f7", "#d73027"],
    )
    axes[0].set_title("what each state is worth", fontsize=9)
    axes[1].set_title("torque that is chosen: red 2, blue -2, white none", fontsize=9)
    for axis in axes:
        axis.set_xlabel("degrees from upright")
        axis.set_ylabel("speed in radians a second")
        for which, color in [(0, "white"), (1, "black")]:
            path = np.degrees(angles[:, which])
            path[1:][np.abs(np.diff(path)) > 180] = np.nan
            axis.plot(path, speeds[:, which], color=color, linewidth=1)
    figure.savefig(file, dpi=80)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5000, help="steps of all workers together")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--target", type=float, default=0.9, help="share of the time upright to reach")
    parser.add_argument("--picture", metavar="FILE", help="write a picture of how it swings (needs matplotlib)")
    args = parser.parse_args()
    if args.picture:
        try:
            import matplotlib
        except ImportError:
            parser.error("--picture needs matplotlib: pip install matplotlib")
        matplotlib.use("agg")

    task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    setter = tf.train.replica_device_setter(
        cluster=task.cluster_spec(), worker_device=f"/job:{task.task_type}/task:{task.task_id}"
    )
    with tf.device(setter):
        now = tf.placeholder(tf.float32, [None, 3], name="now")
        before, after = (tf.placeholder(tf.float32, [None, 3], name=name) for name in ("before", "after"))
        chosen, rewards = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None])
        values = worth(now, "learner")
        # What comes after is judged by an older copy of the network: a network that learns from its own last word
        # runs after itself. The torque is still chosen by the new one.
        best = tf.one_hot(tf.argmax(worth(after, "learner"), axis=1), len(TORQUES))
        later = tf.reduce_sum(best * worth(after, "older"), axis=1)
        told = tf.reduce_sum(tf.one_hot(chosen, len(TORQUES)) * worth(before, "learner"), axis=1)
        loss = tf.losses.huber_loss(tf.stop_gradient(rewards + DISCOUNT * later), told)
        learner, older = tf.trainable_variables("learner"), tf.trainable_variables("older")
        copy = tf.group(*(old.assign(new) for old, new in zip(older, learner)))
        step = tf.train.get_or_create_global_step()
        rate = tf.train.polynomial_decay(2e-3, step, args.steps, 1e-4)
        train_op = tf.train.AdamOptimizer(rate).minimize(loss, global_step=step, var_list=learner)

    final = tf.train.FinalOpsHook(learner)
    hooks = [tf.train.StopAtStepHook(last_step=args.steps), final]
    if task.is_chief:
        metrics = {"loss": loss, "reward": tf.reduce_mean(rewards)}
        hooks.append(tf.train.ProgressHook(total=args.steps, metrics=metrics))
    draw = np.random.default_rng(task.task_id)
    memory, at, moment = Memory(), 0, 0
    with tf.train.MonitoredTrainingSession(
        master=task.master(),
        is_chief=task.is_chief,
        checkpoint_dir=os.environ.get("DTF_CHECKPOINT_DIR"),
        save_checkpoint_secs=5,
        save_summaries_steps=None,
        hooks=hooks,
    ) as session:
        while not session.should_stop():
            if moment % LENGTH == 0:
                pendulums = Pendulums(PENDULUMS, draw)
            seen = pendulums.seen()
            by_chance = draw.random(PENDULUMS) < max(0.05, 1 - 3 * at / args.steps)
            choice = draw.integers(len(TORQUES), size=PENDULUMS)
            if moment >= LENGTH:
                lived = memory.some(args.batch, draw)
                feeds = dict(zip([before, chosen, rewards, after], lived))
                wanted = [step, values, train_op]
                if task.is_chief and moment % 50 == 0:
                    wanted.append(copy)
                at, found, *_ = session.run(wanted, {now: seen, **feeds})
                choice = np.where(by_chance, choice, found.argmax(axis=1))
            memory.add(seen, choice, pendulums.turn(choice), pendulums.seen())
            moment += 1

    if not task.is_chief:
        return 0
    angles, total, swings, states = played(final.final_ops_values)
    if args.picture:
        picture(args.picture, swings, states)
    chance = np.random.default_rng(1)
    aimless, _, least = play(lambda seen: chance.integers(len(TORQUES), size=len(seen)))
    print(f"sum of the rewards of {LENGTH} moments: {total:.1f}; by chance: {least:.1f}")
    print(f"upright in the last {LENGTH // 2} of them: {upright(angles):.1%}; by chance: {upright(aimless):.1%}")
    return 0 if upright(angles) >= args.target else 1


if __name__ == "__main__":
    sys.exit(main())
