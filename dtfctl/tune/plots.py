"""A page of a study: history, parallel coordinates, importance; one file, drawn here, that needs no network."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from dtfctl.tune.space import Choices, Range, Setting, Settings, Study
from dtfctl.values import value

WIDTH, HEIGHT, MARGIN = 860, 300, 60
_STYLE = """
body { font: 14px system-ui, sans-serif; margin: 2em auto; max-width: 900px; color: #222; background: #fff; }
svg { width: 100%; height: auto; } h2 { margin-top: 2em; font-size: 1.1em; }
td, th { padding: .2em .8em; text-align: right; }
.axis { stroke: #999; } text { font-size: 12px; fill: #444; }
"""


@value
class Point:
    """A trial with a score, at the longest budget that it ran for."""

    trial: int
    settings: Settings
    score: float
    budget: int | None


def page(study: Study, title: str, points: Sequence[Point], importance: Mapping[str, float]) -> str:
    """Write the page."""
    parts = [f"<h1>{html.escape(title)}</h1>"]
    if points:
        best = (max if study.maximize else min)(_longest(points), key=lambda point: point.score)
        shown = ", ".join(f"{name} {_short(one)}" for name, one in best.settings.items())
        parts.append(
            f"<p>Best: trial {best.trial}, {html.escape(study.metric)} {best.score:.6g} ({html.escape(shown)})</p>"
        )
        parts.append(f"<h2>History</h2>{_history(study, points)}")
        parts.append(f"<h2>Parallel coordinates</h2>{_parallel(study, points)}")
    if importance:
        parts.append(f"<h2>Importance</h2>{_importance(importance)}")
    parts.append(_table(study, points))
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
    return f"{head}<style>{_STYLE}</style><body>{''.join(parts)}</body></html>\n"


def _longest(points: Sequence[Point]) -> list[Point]:
    most = max(point.budget or 0 for point in points)
    return [point for point in points if (point.budget or 0) == most]


def _svg(content: Sequence[str], height: int = HEIGHT) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(content)}</svg>'


def _place(number: float, low: float, high: float, begin: float, end: float) -> float:
    return (begin + end) / 2 if high <= low else begin + (number - low) / (high - low) * (end - begin)


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="axis" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _history(study: Study, points: Sequence[Point]) -> str:
    low, high = min(p.score for p in points), max(p.score for p in points)
    last = max(p.trial for p in points)
    bottom, right = HEIGHT - 30, WIDTH - 20
    drawn = [_line(MARGIN, 10, MARGIN, bottom), _line(MARGIN, bottom, right, bottom)]
    drawn += [_text(MARGIN - 6, 18, f"{high:.4g}", "end"), _text(MARGIN - 6, bottom, f"{low:.4g}", "end")]
    drawn += [_text(MARGIN, HEIGHT - 10, "0"), _text(right, HEIGHT - 10, f"trial {last}", "end")]
    best: float | None = None
    steps = []
    for point in sorted(points, key=lambda p: p.trial):
        x, y = (_place(point.trial, 0, last, MARGIN, right), _place(point.score, low, high, bottom, 15))
        name = f"trial {point.trial}: {point.score:.6g}"
        drawn.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="#47a" fill-opacity=".6"><title>{name}</title></circle>'
        )
        if best is None or study.better(point.score, best):
            if best is not None:
                steps.append(f"{x:.1f},{_place(best, low, high, bottom, 15):.1f}")
            best = point.score
            steps.append(f"{x:.1f},{y:.1f}")
    assert best is not None
    steps.append(f"{right:.1f},{_place(best, low, high, bottom, 15):.1f}")
    drawn.append(f'<polyline points="{" ".join(steps)}" fill="none" stroke="#c33" stroke-width="1.5"/>')
    return _svg(drawn)


def _parallel(study: Study, points: Sequence[Point]) -> str:
    names = list(study.parameters)
    bottom, right = HEIGHT - 50, WIDTH - MARGIN
    at = {name: _place(number, 0, len(names), MARGIN, right) for number, name in enumerate(names)}
    low, high = min(p.score for p in points), max(p.score for p in points)
    drawn = []
    for point in sorted(points, key=lambda p: p.score, reverse=not study.maximize):
        good = _place(point.score, low, high, 0, 1) if study.maximize else _place(point.score, high, low, 0, 1)
        if high <= low:
            good = 0.5
        places = [
            f"{at[name]:.1f},{_place(_scale(study, name, point.settings[name]), 0, 1, bottom, 15):.1f}"
            for name in names
        ]
        places.append(f"{right:.1f},{_place(point.score, low, high, bottom, 15):.1f}")
        color = f"hsl({220 - 220 * good:.0f} 70% 45%)"
        title = f"<title>trial {point.trial}: {point.score:.6g}</title>"
        drawn.append(
            f'<polyline points="{" ".join(places)}" fill="none" stroke="{color}" stroke-opacity=".7">{title}</polyline>'
        )
    for name in names:
        first, last = _ends(study, name)
        drawn += [_line(at[name], 15, at[name], bottom), _text(at[name], bottom + 34, name)]
        drawn += [_text(at[name], bottom + 16, first), _text(at[name], 11, last)]
    drawn += [_line(right, 15, right, bottom), _text(right, bottom + 34, study.metric)]
    drawn += [_text(right, bottom + 16, f"{low:.4g}"), _text(right, 11, f"{high:.4g}")]
    return _svg(drawn)


def _scale(study: Study, name: str, setting: Setting) -> float:
    """Place a setting on its axis, from 0 to 1."""
    parameter = study.parameters[name]
    if isinstance(parameter, Choices):
        return _place(parameter.values.index(setting), 0, len(parameter.values) - 1, 0, 1)
    number = float(setting)
    if parameter.log:
        return _place(math.log(number), math.log(parameter.low), math.log(parameter.high), 0, 1)
    return _place(number, parameter.low, parameter.high, 0, 1)


def _ends(study: Study, name: str) -> tuple[str, str]:
    parameter = study.parameters[name]
    if isinstance(parameter, Range):
        return _short(parameter.low), _short(parameter.high)
    return str(parameter.values[0]), str(parameter.values[-1])


def _importance(found: Mapping[str, float]) -> str:
    drawn = []
    most = max(found.values()) or 1.0
    for number, (name, share) in enumerate(sorted(found.items(), key=lambda item: -item[1])):
        y = 10 + number * 26
        long = _place(share, 0, most, 0, WIDTH - 260)
        drawn += [
            _text(150, y + 14, name, "end"),
            f'<rect x="160" y="{y}" width="{long:.1f}" height="18" fill="#47a"/>',
        ]
        drawn.append(_text(168 + long, y + 14, f"{share:.0%}", "start"))
    return _svg(drawn, 20 + 26 * len(found))


def _table(study: Study, points: Sequence[Point]) -> str:
    names = [*study.parameters, study.metric, *(["budget"] if study.budget else [])]
    rows = []
    for point in sorted(points, key=lambda p: p.score, reverse=study.maximize):
        cells = [
            *map(_short, point.settings.values()),
            f"{point.score:.6g}",
            *([str(point.budget)] if study.budget else []),
        ]
        rows.append(f"<tr><td>{point.trial}</td>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>")
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ("trial", *names))
    return f"<h2>Trials</h2><table><tr>{head}</tr>{''.join(rows)}</table>"


def _short(setting: Setting) -> str:
    return f"{setting:.4g}" if isinstance(setting, float) else str(setting)
