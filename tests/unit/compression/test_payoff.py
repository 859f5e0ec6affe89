"""A codec is on where what it takes is less than what it saves on the link, by rates that are given here."""

from __future__ import annotations

import numpy as np
import pytest

from dtfctl.runtime.compression import codec_names, decode, encode, is_encoded, parse_codec
from dtfctl.runtime.compression.payoff import Ledger, Payoff, summary

MB = 1_000_000
SHAPE = (64, 100)


def run(payoff: Payoff, count: int, bytes_s: float, took: float, decode_s: float = 0.0) -> list[bool]:
    """Ask and tell as EncodeTensor does, of tensors of 10 MB that become 1 MB."""
    said = []
    for _ in range(count):
        said.append(payoff.encodes(bytes_s, decode_s))
        if said[-1]:
            payoff.encoded(10 * MB, MB, took)
    return said


def test_a_codec_that_takes_longer_than_it_saves_turns_itself_off() -> None:
    # 9 MB less are 0.9 s at 10 MB/s, and 9 ms at 1 GB/s.
    assert all(run(Payoff("w", "topk"), 20, 10 * MB, took=0.04))
    assert run(Payoff("w", "topk"), 8, 1000 * MB, took=0.04) == 5 * [True] + 3 * [False]


def test_what_decoding_takes_at_the_other_end_counts() -> None:
    # 10 ms here; 9 MB are 18 ms of the link.
    assert all(run(Payoff("w", "int8"), 20, 500 * MB, took=0.01))
    assert not run(Payoff("w", "int8"), 20, 500 * MB, took=0.01, decode_s=0.02 / (10 * MB))[-1]


def test_it_comes_on_again_when_the_link_falls_and_says_why() -> None:
    payoff = Payoff("w", "topk:ratio=0.01")
    assert not run(payoff, 20, 1000 * MB, took=0.04)[-1]
    found = payoff.judgement
    assert found is not None and not found.is_on
    assert summary([found]) == "topk off (takes 40 ms, saves 9 ms)"
    assert all(run(payoff, 5, 10 * MB, took=0.04))
    found = payoff.judgement
    assert found is not None and summary([found]) == "topk on (takes 40 ms, saves 9e+02 ms)"


def test_what_scatters_about_the_limit_does_not_toggle() -> None:
    payoff = Payoff("w", "int8")
    assert all(run(payoff, 10, 100 * MB, took=0.08))  # saves 90 ms
    assert all(run(payoff, 10, 105 * MB, took=0.1))
    assert not run(payoff, 10, 105 * MB, took=0.12)[-1]
    assert not any(run(payoff, 10, 90 * MB, took=0.1))


def test_an_off_codec_is_tried_now_and_then_as_the_machine_may_be_faster_now() -> None:
    payoff = Payoff("w", "topk")
    run(payoff, 20, 1000 * MB, took=0.04)
    said = run(payoff, 400, 1000 * MB, took=0.001)
    first = said.index(True)
    assert 0 < first < 64 and not any(said[first + 1 : first + 64])
    assert all(said[-50:])


def test_nothing_is_decided_on_a_link_of_which_nothing_is_known() -> None:
    payoff = Payoff("w", "topk")
    assert all(run(payoff, 50, 0.0, took=10.0))
    assert payoff.judgement is None


def test_both_ends_know_what_decoding_takes() -> None:
    told: list[tuple[str, float]] = []
    sender = Ledger(lambda: (500 * MB, 0.0), lambda *news: None, lambda: 0.0)
    receiver = Ledger(lambda: (0.0, 0.0), lambda *news: told.append(news))
    for _ in range(200):
        receiver.decoded("int8", 10 * MB, 0.02)
    assert 5 <= len(told) <= 10 and set(told) == {("int8", 0.02 / (10 * MB))}
    for news in told:
        sender.told(*news)
    said = []
    for _ in range(10):
        said.append(sender.encodes("w", "int8"))
        sender.encoded("w", "int8", 10 * MB, MB, 0.01)
    assert said == 5 * [True] + 5 * [False]
    (found,) = sender.judgements()
    assert (found.edge, found.is_on, found.takes_s) == ("w", False, pytest.approx(0.03))


def test_each_edge_is_judged_for_itself() -> None:
    ledger = Ledger(lambda: (500 * MB, 0.0), lambda *news: None, lambda: 0.0)
    for edge, took in (("a", 0.1), ("b", 0.001)) * 8:
        if ledger.encodes(edge, "int8"):
            ledger.encoded(edge, "int8", 10 * MB, MB, took)
    assert {item.edge: item.is_on for item in ledger.judgements()} == {"a": False, "b": True}
    assert summary(ledger.judgements()).startswith("int8 on for 1 of 2 (takes 1e+02 ms")


def test_a_link_that_only_small_tensors_cross_is_measured_now_and_then() -> None:
    now, timed_at, rate = 0.0, float("-inf"), 0.0
    ledger = Ledger(lambda: (rate, timed_at), lambda *news: None, lambda: now)
    whole = []
    for step in range(4000):
        now = step / 10
        if ledger.encodes("w", "topk"):
            ledger.encoded("w", "topk", 10 * MB, MB, 0.01)
        else:
            whole.append(now)
            rate, timed_at = 100.0 * MB, now + 0.05
    # Once enough is known of the codec, then every half minute; 0.1 s are a three-hundredth of that.
    assert whole[0] == 0.5 and 12 <= len(whole) <= 14
    # Where it takes a second each it is done every 50 s.
    rate, timed_at, whole = 10.0 * MB, float("-inf"), []
    for step in range(4000):
        now = 400 + step / 10
        if ledger.encodes("w", "topk"):
            ledger.encoded("w", "topk", 10 * MB, MB, 0.01)
        else:
            whole.append(now)
    assert 7 <= len(whole) <= 9


def test_tensors_too_short_to_measure_by_are_not_sent_whole() -> None:
    ledger = Ledger(lambda: (0.0, float("-inf")), lambda *news: None, lambda: 0.0)
    for _ in range(200):
        assert ledger.encodes("w", "topk")
        ledger.encoded("w", "topk", MB, MB // 10, 0.01)


@pytest.mark.parametrize("text", [*codec_names(), "topk:momentum=0.5,warmup=3"])
def test_a_codec_that_goes_off_sends_what_it_owes(text: str) -> None:
    codec = parse_codec(text)
    state = np.zeros(codec.state_size(SHAPE), np.float32)
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(6)]
    got = []
    for n, value in enumerate(values):
        message = encode(codec, value, state, state, is_on=n not in (3, 5))
        assert is_encoded(message) == (n not in (3, 5))
        got.append(decode(codec, message, SHAPE))
    if "momentum" in text:
        # What was not sent keeps its velocity, which goes on: all of it has left when the last one is whole.
        assert not state[: values[0].size].any() and state[values[0].size :].any()
        return
    if codec.state_size(SHAPE):
        # Nothing is lost: all that was put in has come out.
        assert np.allclose(sum(got), sum(values), atol=1e-4)
    else:
        assert np.array_equal(got[3], values[3]) and np.array_equal(got[5], values[5])


def test_momentum_goes_on_while_the_codec_is_off() -> None:
    codec = parse_codec("topk:momentum=0.5")
    state = np.zeros(codec.state_size(SHAPE), np.float32)
    one = np.ones(SHAPE, np.float32)
    got = [decode(codec, encode(codec, one, state, state, is_on=False), SHAPE)[0, 0] for _ in range(3)]
    assert got == [1.0, 1.5, 1.75]


def test_values_that_are_not_finite_leave_the_state_alone() -> None:
    codec = parse_codec("onebit")
    state = np.zeros(codec.state_size(SHAPE), np.float32)
    encode(codec, np.linspace(-1, 2, 6400, dtype=np.float32).reshape(SHAPE), state, state)
    before = state.copy()
    broken = np.full(SHAPE, np.inf, np.float32)
    assert np.isinf(decode(codec, encode(codec, broken, state, state, is_on=False), SHAPE)).all()
    assert np.array_equal(state, before)
