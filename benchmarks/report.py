"""The table: on the terminal, as JSON, and as docs/benchmarks.md."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import store
from benchmarks.limits import Limits
from benchmarks.machine import Machine
from benchmarks.results import Ratio, Row, Timing

HEADINGS = ("case", "ours", "p99", "peer", "p99", "ratio (spread)", "limit", "goal", "met")


def amount(value: float | None, unit: str) -> str:
    """A figure with three digits and its unit."""
    if value is None:
        return ""
    if unit == "bytes":
        return f"{value / 1e6:.3g} MB"
    for scale, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value * 1e6:.2g} us"


def _timed(timing: Timing | None, unit: str) -> tuple[str, str]:
    if timing is None:
        return "", ""
    return amount(timing.median, unit), amount(timing.p99, unit) if timing.steps > 1 else ""


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    by_mean = "" if ratio.by_mean is None else f", mean {ratio.by_mean:.2f}x"
    return f"{ratio.median:.2f}x ({ratio.low:.2f}-{ratio.high:.2f}){by_mean}"


def _goal(row: Row) -> str:
    return row.goal_is or ("" if row.goal is None else f">= {row.goal:g}x")


def _met(row: Row) -> str:
    if row.error:
        return "failed" if row.was_run else "not run"
    if row.met is None:
        return ""
    return "yes" if row.met else "NO"


def cells(row: Row) -> tuple[str, ...]:
    """A row's texts, in the order of HEADINGS."""
    transport = row.ours_name.partition(" ")[2].strip("()")
    name = f"{row.what}, {transport}" if transport else row.what
    ours, ours_p99 = _timed(row.ours, row.unit)
    peer, peer_p99 = _timed(row.peer, row.unit)
    if peer and row.peer_name != "TensorFlow":
        peer = f"{peer} ({row.peer_name})"
    return (
        name,
        ours,
        ours_p99,
        peer,
        peer_p99,
        _ratio(row.ratio),
        amount(row.limit, row.unit),
        _goal(row),
        _met(row),
    )


def line(row: Row) -> str:
    """One line of progress."""
    texts = cells(row)
    out = f"  {texts[0]}: {texts[1] or '-'} against {texts[3] or '-'}  {texts[5]}"
    if row.goal is not None or row.goal_is:
        out += f"  goal {texts[7]}: {texts[8] or 'not compared'}"
    if row.verified is False:
        out += "  VALUES DIFFER"
    if row.note:
        out += f"  [{row.note}]"
    if row.error:
        out += "\n    " + row.error.strip().replace("\n", "\n    ")
    return out


def conditions(machine: Machine, limits: Limits) -> list[str]:
    """What was measured on, a line a subject."""
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    where = (
        f"{machine.cores} cores of {machine.cpu}, {machine.memory_gb:g} GB, Linux {machine.kernel}; load "
        f"{machine.load_before[0]:.2f} before, {machine.load_after[0]:.2f} after; {packages}"
    )
    out = [where]
    for name, info in machine.sides.items():
        out.append(f"{name} {info['runtime']}: Python {info['python']}, numpy {info['numpy']}, BLAS: {info['blas']}")
    for name, version in machine.peers.items():
        out.append(f"{name}: {version}")
    out.append(
        f"limits: socket round trip {limits.tcp_round_trip_s * 1e6:.1f} us (TCP), "
        f"{limits.unix_round_trip_s * 1e6:.1f} us (unix); TCP {limits.tcp_bytes_s / 1e9:.1f} GB/s; memcpy "
        f"{limits.memcpy_bytes_s / 1e9:.1f} GB/s a core; GEMM {limits.gemm_flops / 1e9:.0f} GFLOP/s; disk "
        f"{limits.disk_bytes_s / 1e9:.2f} GB/s; fork {limits.fork_s * 1e3:.2f} ms"
    )
    return out


def show(console: Console, machine: Machine, limits: Limits, rows: list[Row]) -> None:
    """The table on a terminal."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "case" else "right", overflow="fold")
    for row in rows:
        style = "red" if row.error or row.met is False else ""
        table.add_row(*cells(row), style=style)
    console.print(table)
    for text in conditions(machine, limits):
        console.print(text, highlight=False)
    for row in rows:
        if row.note or row.error:
            console.print(
                f"{row.case} ({row.ours_name}): {row.error.strip() or row.note}", markup=False, highlight=False
            )


START = "<!-- table: written by `python -m benchmarks --write-docs` -->"
END = "<!-- end of table -->"


def markdown(table: store.Table) -> str:
    """The table with its conditions, as it stands in docs/benchmarks.md."""
    out = [START, ""]
    if len(table.runs) > 1:
        out += ["Rows are of several runs; the last column says of which.", ""]
    for number, run in table.runs.items():
        out += [f"{number}. `{run.command}`, {run.date}"]
        out += [f"   - {text}" for text in conditions(run.machine, run.limits)]
    out += ["", "| " + " | ".join((*HEADINGS, "run")) + " |", "|" + "---|" * (len(HEADINGS) + 1)]
    for row in table.rows:
        out.append("| " + " | ".join(text.replace("|", "\\|") for text in (*cells(row), row.run)) + " |")
    notes = [f"- {cells(row)[0]}: {_first_line(row.error) or row.note}" for row in table.rows if row.note or row.error]
    if notes:
        out += ["", "Notes:", "", *notes]
    return "\n".join([*out, "", END])


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def write_docs(page: str, table: store.Table) -> str:
    """A page with its table replaced."""
    before, _, rest = page.partition(START)
    if not rest:
        raise ValueError("docs/benchmarks.md has no place for the table")
    return before + markdown(table) + rest.partition(END)[2]
