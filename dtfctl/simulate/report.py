"""What simulations found, as text and as a page with plots that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from dtfctl.simulate.strategies import Outcome


@dataclass(frozen=True)
class Row:
    """One simulation.

    Attributes:
        series: what is compared over numbers of workers: strategy, algorithm and codec.
        share: of the examples a second that so many times one worker alone would have.
    """

    series: str
    strategy: str
    algorithm: str
    compression: str
    workers: int
    hosts: int
    outcome: Outcome
    share: float


COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 640, 360, 70, 44, 28, 190


def table(rows: Sequence[Row]) -> list[list[str]]:
    """Make a table's rows, for a person."""
    return [
        [
            row.series,
            f"{row.workers:,}",
            f"{row.hosts:,}",
            duration(row.outcome.step_s),
            f"{row.outcome.examples_s:,.4g}",
            f"{row.share:.0%}",
            f"{row.outcome.messages:,.0f}",
            f"{row.outcome.bytes / 1e6:,.4g}MB",
            row.outcome.algorithm or "-",
        ]
        for row in rows
    ]


HEADS = ["STRATEGY", "WORKERS", "HOSTS", "STEP", "EXAMPLES/S", "OF IDEAL", "MESSAGES", "BETWEEN HOSTS", "ORDER"]


def duration(seconds: float) -> str:
    """Write a step's time."""
    return f"{seconds * 1e3:,.3g}ms" if seconds < 1 else f"{seconds:,.3g}s"


def page(title: str, facts: Sequence[tuple[str, str]], rows: Sequence[Row]) -> str:
    """Make a page of HTML with plots in it."""
    plots = [
        plot("Step time (s)", rows, lambda row: row.outcome.step_s),
        plot("Examples a second", rows, lambda row: row.outcome.examples_s),
        plot("Share of ideal scaling", rows, lambda row: row.share),
    ]
    heads = "".join(f"<th>{escape(head.capitalize())}</th>" for head in HEADS)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>\n" for cells in table(rows))
    known = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return _PAGE.format(title=escape(title), facts=known, plots="\n".join(plots), heads=heads, body=body)


def plot(title: str, rows: Sequence[Row], value: object) -> str:
    """Draw a line for each series over numbers of workers, both axes by powers, as SVG."""
    assert callable(value)
    series = list(dict.fromkeys(row.series for row in rows))
    xs, ys = [row.workers for row in rows], [max(value(row), 1e-12) for row in rows]
    low_x, high_x = _range(min(xs), max(xs))
    low_y, high_y = _range(min(ys), max(ys))

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log(x) - low_x) / (high_x - low_x)
        up = (math.log(max(y, 1e-12)) - low_y) / (high_y - low_y)
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _BOTTOM - _TOP)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" width="{_WIDTH}">',
        f"<title>{escape(title)}</title>",
        f'<text x="{_LEFT}" y="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">workers</text>',
    ]
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for x in sorted(set(xs)):
        left, _ = at(x, math.exp(low_y))
        out.append(f'<line x1="{left:.1f}" x2="{left:.1f}" y1="{_TOP}" y2="{bottom}" stroke="#ddd"/>')
        out.append(f'<text x="{left:.1f}" y="{bottom + 16}" text-anchor="middle">{x:,}</text>')
    for y in _ticks(math.exp(low_y), math.exp(high_y)):
        _, top = at(xs[0], y)
        out.append(f'<line x1="{_LEFT}" x2="{right}" y1="{top:.1f}" y2="{top:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{_LEFT - 6}" y="{top + 4:.1f}" text-anchor="end">{y:,.6g}</text>')
    for i, name in enumerate(series):
        color = COLORS[i % len(COLORS)]
        points = [at(row.workers, value(row)) for row in rows if row.series == name]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]
        out.append(f'<text x="{right + 10}" y="{_TOP + 14 + 18 * i}" fill="{color}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>"])


def _range(low: float, high: float) -> tuple[float, float]:
    """Give the logarithms of the ends of an axis, with room around."""
    a, b = math.log(low), math.log(high)
    room = max((b - a) * 0.05, 0.1)
    return a - room, b + room


def _ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [m * 10.0**power for power in powers for m in (1, 2, 5)]
    found = [tick for tick in found if low <= tick <= high]
    return found[:: max(len(found) // 8, 1)] or [low]


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222 }}
svg {{ font-size: 11px; margin: 0 1em 1em 0; max-width: 100% }}
table {{ border-collapse: collapse }} td, th {{ padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd }}
td:first-child, th:first-child {{ text-align: left }}
dl {{ display: grid; grid-template-columns: max-content auto; gap: 0 1em }} dd {{ margin: 0 }}
</style></head><body>
<h1>{title}</h1>
<dl>{facts}</dl>
{plots}
<table><thead><tr>{heads}</tr></thead><tbody>
{body}</tbody></table>
</body></html>
"""
