"""python -m benchmarks: measure, print the table, and keep it in .bench/newest.json, where it takes the place of the
same cases' older rows."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from rich.console import Console

from benchmarks import limits as limits_module, machine as machine_module, peers, report, store
from benchmarks.bench import Bench, Case
from benchmarks.cases import all_cases, hosts as host_cases, zoo
from benchmarks.hosts import PLAIN, link_limits, three_hosts
from benchmarks.processes import PINS, ROOT, ChildError, Side
from benchmarks.results import Row, geometric_mean
from benchmarks.rounds import QUICK, Plan
from benchmarks.transports import WITH_TLS, environment_for

NEWEST = ROOT / ".bench" / "newest.json"
PAGE = ROOT / "docs" / "benchmarks.md"
# All of a run's cases but those that are named must end in this.
MOST_S, QUICK_S, FULL_S = 15 * 60.0, 3 * 60.0, 40 * 60.0


def main() -> int:
    options = _options().parse_args()
    cases: list[Case] = list(host_cases.all_cases()) if options.hosts else zoo.CASES if options.zoo else all_cases()
    if options.list:
        for case in cases:
            kind = "" if case.quick else "  (only --full)" if case.full else "  (not with --quick)"
            print(f"{case.name:24} {case.what}{kind}")
        return 0
    if options.write_docs and not options.measure:
        return _write_docs()
    if any(pin in os.environ for pin in PINS):
        # numpy reads them when it loads, so this process starts again without.
        clean = {k: v for k, v in os.environ.items() if k not in PINS}
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]], clean)
    unknown = [name for name in options.case if not named(cases, name)]
    if unknown:
        print(f"No case is named {' or '.join(unknown)}; --list names them", file=sys.stderr)
        return 2
    chosen = _chosen(cases, options)
    return _measure(chosen, options)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--case", action="append", default=[], metavar="NAME", help="only this one; a prefix will do")
    parser.add_argument(
        "--hosts",
        nargs="?",
        const=True,
        metavar="FILE",
        help="between three hosts: those of a spec, else made here with networks of their own, which needs root",
    )
    parser.add_argument("--zoo", action="store_true", help="training steps of many kinds of models instead")
    parser.add_argument("--quick", action="store_true", help="fewer cases, shorter rounds; under 3 minutes")
    parser.add_argument("--full", action="store_true", help="also what needs much memory or time")
    parser.add_argument("--list", action="store_true", help="name the cases")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--no-peers", action="store_true", help="ours only")
    parser.add_argument("--rounds", type=int, help="of each side, in turns")
    parser.add_argument("--seconds", type=float, help="a round of a side")
    parser.add_argument(
        "--minutes", type=float, help="end within that; 15, with --quick 3, with --full 40, with --case no limit"
    )
    parser.add_argument("--patience", type=float, default=1.0, help="times as long as usual for each case")
    parser.add_argument("--write-docs", action="store_true", help="put the stored table into docs/benchmarks.md")
    parser.add_argument("--measure", action="store_true", help="with --write-docs: measure first")
    return parser


def named(cases: list[Case], name: str) -> list[Case]:
    """The case of that name, else those whose names begin with it."""
    return [c for c in cases if c.name == name] or [c for c in cases if c.name.startswith(name)]


def _chosen(cases: list[Case], options: argparse.Namespace) -> list[Case]:
    if options.case:
        wanted = {c.name for name in options.case for c in named(cases, name)}
        # Named cases run whole, whatever they cost.
        return [c for c in cases if c.name in wanted]
    if options.quick:
        return [c for c in cases if c.quick and not c.full and not c.link]
    if isinstance(options.hosts, str):
        # Nobody shapes the links of hosts that others use.
        cases = [c for c in cases if not c.link]
    replaced = {c.name for c in cases if c.name.endswith("-64MB")}
    return [c for c in cases if (options.full or not c.full) and c.name not in replaced]


def _measure(chosen: list[Case], options: argparse.Namespace) -> int:
    progress = Console(stderr=True)
    began = time.monotonic()

    def say(text: str) -> None:
        progress.print(f"{time.monotonic() - began:6.1f} s  {text}", markup=False, highlight=False, soft_wrap=True)

    signal.signal(signal.SIGTERM, _interrupt)
    plan = QUICK if options.quick else Plan()
    plan = Plan(options.rounds or plan.rounds, options.seconds or plan.seconds, plan.warm_s)
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = machine_module.describe()
    say("measuring what the machine allows")
    limits = limits_module.measure(options.quick)
    sides = {"": Side("ours", "ours", sys.executable)}
    folder = tempfile.TemporaryDirectory(prefix="dtf-bench-")
    for transport in WITH_TLS:
        environment = environment_for(transport, Path(folder.name))
        sides[transport] = Side(f"ours ({transport})", "ours", sys.executable, environment)
    tensorflow = "not compared" if options.no_peers else _tensorflow(say)
    bench = Bench(plan, limits, sides, tensorflow, options.quick, options.full, say)
    bench.patience, bench.compares = options.patience, not options.no_peers
    rows: list[Row] = []
    stack = ExitStack()
    try:
        hosts = None
        if options.hosts:
            file = Path(options.hosts) if isinstance(options.hosts, str) else None
            hosts, host_sides, bench.tensorflow = stack.enter_context(three_hosts(tensorflow, say, file))
            bench.sides = dict(zip(("", PLAIN), host_sides, strict=True))
            bench.limits = limits = link_limits(hosts, limits)
            say(f"the link: {limits.tcp_bytes_s / 1e9:.2f} GB/s, {limits.tcp_round_trip_s * 1e6:.0f} us")
        bench.prepare(chosen)
        # Installing peers, once, does not count.
        bench.until = time.monotonic() + _seconds(options)
        for side in (bench.ours, bench.tensorflow):
            if isinstance(side, Side):
                try:
                    machine.sides[side.name] = side.driver().ask({"do": "info"})
                except ChildError as e:
                    say(str(e))
        link, shaped = "", stack.enter_context(ExitStack())
        for number, case in enumerate(chosen, 1):
            if hosts is not None and case.link != link:
                link = case.link
                shaped.close()
                if link:
                    hosts.shaped(host_cases.LINKS[link], shaped)
                bench.limits = link_limits(hosts, limits)
                say(f"links of {host_cases.LINKS.get(link, 'no shape')}: {bench.limits.tcp_bytes_s / 1e6:.1f} MB/s")
            say(f"{number}/{len(chosen)} {case.name}: {case.what}")
            for row in bench.run(case):
                rows.append(row)
                say(report.line(row))
    except KeyboardInterrupt:
        say("interrupted; what is there:")
    finally:
        bench.stop()
        stack.close()
        folder.cleanup()
    if mean := geometric_mean(row.ratio.median for row in rows if row.ratio is not None and options.zoo):
        say(f"geometric mean of all ratios: {mean:.2f}x")
    machine.load_after = os.getloadavg()
    machine.peers = peers.used()
    command = f"make bench BENCH={shlex.quote(shlex.join(sys.argv[1:]))}" if sys.argv[1:] else "make bench"
    run = store.Run(command, date, machine, limits)
    table = store.Table()
    table.add(run, rows, [case.name for case in chosen])
    if not options.no_peers:
        stored = store.load(NEWEST)
        stored.add(run, rows, [case.name for case in (*host_cases.all_cases(), *zoo.CASES, *all_cases())])
        store.save(NEWEST, stored)
    if options.output == "json":
        print(json.dumps(table.to_json(), indent=1))
    else:
        report.show(Console(width=None if sys.stdout.isatty() else 200), machine, limits, rows)
    if options.write_docs:
        _write_docs()
    return 1 if any(row.error or row.verified is False for row in rows) else 0


def _seconds(options: argparse.Namespace) -> float:
    """How long all cases may take."""
    if options.minutes:
        return float(options.minutes * 60)
    if options.case:
        return float("inf")
    return (QUICK_S if options.quick else FULL_S if options.full or options.zoo else MOST_S) * float(options.patience)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _tensorflow(say: Callable[[str], None]) -> Side | str:
    try:
        python, _ = peers.interpreter("tensorflow", say)
    except peers.Missing as e:
        return str(e)
    return Side("TensorFlow", "tensorflow", python)


def _write_docs() -> int:
    table = store.load(NEWEST)
    if not table.rows:
        print("No run to write from; run `make bench` first", file=sys.stderr)
        return 2
    PAGE.write_text(report.write_docs(PAGE.read_text(), table))
    print(f"Wrote {len(table.rows)} rows of {len(table.runs)} runs into {PAGE.relative_to(ROOT)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
