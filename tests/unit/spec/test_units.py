"""Durations, sizes, rates and percentages."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from dtfctl.launcher.spec import units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("2s", 2), ("10m", 600), ("1h", 3600), ("1.5h", 5400), ("1h30m", 5400), ("2d", 172800), ("0s", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5x", "-1s", "1s2", "s", "1e3s", "٣s", "١s"])
def test_not_durations(text: str) -> None:
    with pytest.raises(ValueError):
        units.parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"), [("512MiB", 512 << 20), ("1.5GB", 1_500_000_000), ("7B", 7), ("24GiB", 24 << 30)]
)
def test_sizes(text: str, size: int) -> None:
    assert units.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "5", "5 megs", "5mb", "-1MiB", "MiB"])
def test_not_sizes(text: str) -> None:
    with pytest.raises(ValueError):
        units.parse_size(text)


def test_rates_and_percentages() -> None:
    assert units.parse_rate("10MiB/s") == 10 << 20
    assert units.parse_percent("25%") == 0.25
    for text in ("10MiB", "10/s"):
        with pytest.raises(ValueError):
            units.parse_rate(text)
    for text in ("25", "101%", "-1%", "%"):
        with pytest.raises(ValueError):
            units.parse_percent(text)


@given(st.integers(0, 10**9).map(lambda ms: ms / 1000))
def test_a_duration_reads_back(seconds: float) -> None:
    assert units.parse_duration(units.format_duration(seconds)) == pytest.approx(seconds, abs=1e-9)


@given(st.integers(0, 1 << 50))
def test_a_size_reads_back(size: int) -> None:
    if size < 10**12:
        assert units.parse_size(units.format_size(size)) == size
    assert not units.format_size(size << 20).endswith("B ")


@given(st.integers(0, 1000).map(lambda n: n / 1000))
def test_a_percentage_reads_back(fraction: float) -> None:
    assert units.parse_percent(units.format_percent(fraction)) == pytest.approx(fraction)
