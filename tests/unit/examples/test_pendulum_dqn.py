"""The pendulum that learns: its physics, its memory, and that it is not upright before it has learned."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.examples.loading import load

example = load("pendulum_dqn")


def test_a_pendulum_that_is_left_alone_keeps_its_energy() -> None:
    """About g = 10: the angle's acceleration is 3 g / 2 l sin(angle), so speed² / 2 + 15 cos(angle) stays."""
    pendulums = example.Pendulums(50, np.random.default_rng(0))
    energies = []
    for _ in range(400):
        pendulums.turn(np.ones(50, int))
        energies.append(pendulums.speed**2 / 2 + 15 * np.cos(pendulums.angle))
    # A step of finite length makes it tremble, and does not let it drift.
    early, late = np.mean(energies[:200], axis=0), np.mean(energies[200:], axis=0)
    assert np.abs(early - late).max() < 0.8
    assert (np.abs(pendulums.angle) <= np.pi).all()


def test_the_motor_alone_does_not_lift_it() -> None:
    pendulums = example.Pendulums(2, np.random.default_rng(0))
    pendulums.angle, pendulums.speed = np.full(2, np.pi - 1e-9), np.zeros(2)
    for _ in range(1000):
        pendulums.turn(np.array([0, 2]))
        assert (np.abs(pendulums.angle) > np.pi / 3).all()


def test_the_reward_is_greatest_at_rest_and_upright() -> None:
    pendulums = example.Pendulums(4, np.random.default_rng(0))
    pendulums.angle, pendulums.speed = np.array([0, 0.5, 0, np.pi]), np.array([0.0, 0, 2, 8])
    rewards = pendulums.turn(np.array([1, 1, 1, 0]))
    assert rewards[0] == 0 and (rewards[1:] < 0).all() and rewards[3] == pytest.approx(-1, abs=0.01)


def test_the_memory_forgets_what_is_oldest() -> None:
    memory = example.Memory()
    size = example.REMEMBERED // 10
    for moment in range(15):
        state = np.full((size, 3), moment)
        memory.add(state, np.full(size, moment % 3), np.full(size, -moment), state + 1)
    before, choice, reward, after = memory.some(2000, np.random.default_rng(0))
    assert set(before[:, 0]) == set(range(5, 15))
    assert (after == before + 1).all() and (reward == -before[:, 0]).all() and (choice == before[:, 0] % 3).all()


def test_who_holds_it_upright_is_told_so() -> None:
    angles = np.zeros((example.LENGTH, 2))
    angles[: example.LENGTH // 2] = 3
    angles[:, 1] = np.radians(20)
    assert example.upright(angles) == 0.5


def test_it_misses_its_target_untrained(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["pendulum_dqn.py", "--steps", "1"])
    with tf.Graph().as_default():
        assert example.main() == 1
    said = re.search(r"upright in the last 100 of them: ([0-9.]+)%; by chance: ([0-9.]+)%", capsys.readouterr().out)
    assert said is not None and float(said[1]) < 50 and float(said[2]) < 20
