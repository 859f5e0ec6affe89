"""`--hosts`: steps between hosts, ours encrypted and not against TensorFlow in plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace

from benchmarks.bench import Bench, Case, CustomCase
from benchmarks.cases.collectives import TIMES
from benchmarks.cases.models import mlp
from benchmarks.cases.steps import MB, size_text
from benchmarks.hosts import ENCRYPTED, PLAIN, HostSide, Shape, gloo
from benchmarks.limits import Limits
from benchmarks.peers import Missing
from benchmarks.processes import ChildError, Side
from benchmarks.results import Row, judge, same_values, timing
from benchmarks.rounds import Runner, StepCase

JOBS = {"ps": 1, "worker": 2}
BUSY = 2
"""Processes that want a core each, in the rows beside others."""
_WARM_S, _WARM_STEPS = 1.5, 40
"""Trainings take thousands of steps: the first of them are not these cases'."""
LINKS = {
    f"{rate}-{delay}ms": Shape(bits_s, delay / 1e3)
    for rate, bits_s in (("1gbit", 1e9), ("100mbit", 1e8))
    for delay in (1, 20)
}
"""What links are shaped to, by how cases name it."""


def _trips(limits: Limits, count: float, moved: float = 0.0) -> float:
    return count * limits.tcp_round_trip_s + moved / limits.tcp_bytes_s


def _null() -> StepCase:
    return StepCase(
        name="hosts-null-step",
        what="null step, 3 tasks",
        program="null_step",
        jobs=JOBS,
        transports=(PLAIN,),
        goals={ENCRYPTED: 6.0},
        limit=lambda limits, _: _trips(limits, 1),
        limit_is="a round trip over a raw socket",
    )


def _recv(size: int, goal: float) -> StepCase:
    return StepCase(
        name=f"hosts-recv-{size_text(size).replace(' ', '')}",
        what=f"Recv of {size_text(size)}",
        program="recv",
        params={"elements": max(size // 4, 1)},
        jobs=JOBS,
        transports=(PLAIN,),
        goals={ENCRYPTED: goal},
        limit=lambda limits, _: _trips(limits, 1, size),
        limit_is="a round trip, and the bytes through a raw socket",
        bytes_moved=size,
    )


def _dense(size: int, goal: float | None) -> StepCase:
    return StepCase(
        name=f"hosts-dense-{size_text(size).replace(' ', '')}",
        what=f"dense ps step of {size_text(size)}, 2 workers" if size > 4 else "scalar ps step, 2 workers",
        program="ps_step",
        params={"elements": max(size // 4, 1)},
        jobs=JOBS,
        transports=(PLAIN,),
        goals={} if goal is None else {ENCRYPTED: goal},
        limit=lambda limits, _: _trips(limits, 2, 4 * size),
        limit_is="2 round trips, and the weights to both workers and back through a raw socket, one after the other",
        bytes_moved=4 * size,
    )


def _sparse() -> StepCase:
    return StepCase(
        name="hosts-sparse",
        what="sparse ps step, 2 x 1,024 rows of 64 B",
        program="sparse_step",
        params={"table_bytes": 64 * MB, "rows": 1024, "width": 16},
        jobs=JOBS,
        transports=(PLAIN,),
        goals={ENCRYPTED: 3.0},
        limit=lambda limits, _: _trips(limits, 2, 4 * 1024 * 64),
        limit_is="2 round trips, and the rows there and back through a raw socket",
    )


def _mlp(kind: str, batch: int, hidden: int, goals: dict[str, float]) -> StepCase:
    made = mlp(kind, batch, hidden, spread=True, goal=0.0)
    # The whole limit is over sockets, also where tasks of a host would share memory.
    limit = made.limit
    assert limit is not None
    return replace(
        made,
        name=f"hosts-mlp-{kind}",
        what=made.what.removesuffix(", SGD, 1 ps + 1 worker") + ", 1 ps + 1 worker",
        goal=None,
        goals=goals,
        transports=(PLAIN,),
        limit=lambda limits, _: limit(limits, "tcp"),
        warm_s=_WARM_S,
        warm_steps=_WARM_STEPS,
    )


def _model(model: str, batch: int) -> StepCase:
    return StepCase(
        name=f"hosts-{model}",
        what=f"{model}, batch {batch}, 1 ps + 1 worker",
        program="zoo.models",
        params={"model": model, "batch": batch, "spread": True},
        jobs=JOBS,
        transports=(PLAIN,),
        tolerance=2e-3,
        most_s=180.0,
        warm_s=_WARM_S,
        warm_steps=_WARM_STEPS,
    )


def _add_up(bench: Bench, case: StepCase, size: int, times: int = 1, goals: Mapping[str, float] = {}) -> Iterator[Row]:
    """Time how two workers add up vectors beside gloo's all-reduce of the same between their hosts.

    Args:
        times: of a step of ours.
    """
    kinds = [(kind, side) for kind, side in bench.sides.items() if isinstance(side, HostSide) and kind in ("", PLAIN)]
    rows = [Row(case.name, case.what, side.name, "gloo", goal=goals.get(kind)) for kind, side in kinds]
    runners: list[Runner] = []
    stack = ExitStack()
    try:
        peer = stack.enter_context(gloo(kinds[0][1], bench.peer("torch")))
    except (Missing, ChildError) as e:
        for row in rows:
            row.note = str(e)
        yield from rows
        return
    try:
        runners += [Runner(side, case) for _, side in kinds]
        for runner in runners:
            runner.warm(bench.plan.warm_s, case.most)
        steps = max(int(bench.plan.seconds / (size / 2e9 + 1e-4)), 2)
        peer.ask({"do": "measure", "elements": size // 4, "steps": 2})
        theirs = []
        for _ in range(bench.plan.rounds):
            for runner in runners:
                runner.round(bench.plan.seconds, case.most)
            theirs.append(peer.ask({"do": "measure", "elements": size // 4, "steps": steps})["times"])
        for row, runner in zip(rows, runners, strict=True):
            ours = [[t / times for t in taken] for taken in runner.times]
            row.ours, row.peer = timing(ours, runner.steps), timing(theirs)
            yield judge(row, 2 * size)
    finally:
        stack.close()
        for runner in runners:
            runner.end()


PARTS = {"compute": "its computing alone", "transfer": "its transfers alone", "together": "both"}
AHEAD = {"ahead": "both, parameters fetched during the step before"}
"""What only our sides have; the peer beside it is its step as it is."""


def _parts(bench: Bench, name: str, model: str, batch: int, what: str) -> Iterator[Row]:
    """Time a step over the ps and its two parts, all in the same rounds; the limit of the whole is the longer part."""
    sides = [side for kind, side in bench.sides.items() if kind in ("", PLAIN)]
    peer = bench.tensorflow
    if isinstance(peer, Side):
        sides.append(peer)
    cases = {
        part: StepCase(
            name,
            f"{what}: {words}",
            "apart",
            {"model": model, "batch": batch, "part": part},
            JOBS,
        )
        for part, words in (PARTS | AHEAD).items()
    }
    runners: dict[tuple[str, str], Runner] = {}
    try:
        values = {}
        for side in sides:
            for part, case in cases.items():
                if part in AHEAD and side is peer:
                    continue
                runner = runners[side.name, part] = Runner(side, case, side.own_driver())
                values[side.name, part] = runner.values()
                runner.warm(bench.plan.warm_s, case.most)
        for number in range(bench.plan.rounds):
            turns = list(runners.values())
            first = number % len(turns)
            for runner in turns[first:] + turns[:first]:
                runner.round(bench.plan.seconds, cases["together"].most)
        for side in sides[:2]:
            taken = {part: timing(runners[side.name, part].times) for part in cases}
            for part, case in cases.items():
                row = Row(case.name, case.what, side.name, "TensorFlow", ours=taken[part])
                if part == "together" or part in AHEAD:
                    row.limit = max(taken["compute"].median, taken["transfer"].median)
                    row.limit_is = "the longer of its two parts"
                if isinstance(peer, Side):
                    row.peer = timing(runners[peer.name, "together" if part in AHEAD else part].times)
                    # What is computed with values of one step before has other ones.
                    row.verified = (
                        None if part in AHEAD else same_values(values[side.name, part], values[peer.name, part], 2e-3)
                    )
                else:
                    row.note = peer
                yield judge(row)
    finally:
        last = {side: runner for (side, _), runner in runners.items()}.values()
        for runner in runners.values():
            runner.end(clears=runner in last)


def _parted(model: str, batch: int, what: str, link: str = "") -> CustomCase:
    name = f"hosts-parts-{model}{f'-{link}' if link else ''}"
    where = f"{what}, {LINKS[link]}" if link else what
    return CustomCase(
        name,
        f"{where}: what its step is made of, and the step",
        lambda bench: _parts(bench, name, model, batch, where),
        quick=False,
        most_s=300.0,
        link=link,
    )


def _gloo(size: int) -> CustomCase:
    what = f"2 workers sum gradients of {size_text(size)}: ps step against all-reduce"
    case = replace(_dense(size, None), name=f"hosts-gloo-{size_text(size).replace(' ', '')}", what=what)
    return CustomCase(case.name, what, lambda bench: _add_up(bench, case, size), ("torch",), quick=False)


def _all_reduces(size: int) -> CustomCase:
    what = f"all-reduce of {size_text(size)} over 2 workers, one of {TIMES} in a step"
    case = StepCase(
        name=f"hosts-all-reduces-{size_text(size).replace(' ', '')}",
        what=what,
        program="all_reduce",
        params={"elements": size // 4, "workers": 2, "times": TIMES},
        jobs=JOBS,
    )
    goals = {"": 1.2, ENCRYPTED: 1.2}
    return CustomCase(case.name, what, lambda bench: _add_up(bench, case, size, TIMES, goals), ("torch",), quick=False)


CASES = [
    _null(),
    _dense(4, None),
    _recv(4, 6.0),
    _recv(MB, 2.5),
    _recv(100 * MB, 1.3),
    _dense(MB, 1.5),
    _dense(16 * MB, 1.5),
    _dense(100 * MB, 1.5),
    _sparse(),
    _mlp("small", 64, 256, {ENCRYPTED: 2.0}),
    _mlp("large", 256, 2048, {ENCRYPTED: 1.3, PLAIN: 1.5}),
    _model("cnn", 128),
    _model("transformer", 8),
]


MODELS = {"mlp": (256, "MLP 784-2048-10, batch 256"), "transformer": (8, "transformer, batch 8")}
PARTED = [_parted(model, *what) for model, what in MODELS.items()]


def over(link: str, cases: Iterable[StepCase]) -> list[StepCase]:
    """The cases that a shaped link says something about, named by it; they have no goal."""
    named = []
    for case in cases:
        if case.name in ("hosts-null-step", "hosts-recv-1MB", "hosts-dense-1MB", "hosts-mlp-large"):
            what = f"{case.what}, {LINKS[link]}"
            named.append(
                replace(case, name=f"{case.name}-{link}", what=what, goals={}, most=200, most_s=240.0, link=link)
            )
    return named


def beside_others(cases: Iterable[StepCase]) -> list[StepCase]:
    """The cases beside processes that want a core each."""
    goals = {ENCRYPTED: 1.0, PLAIN: 1.0}
    return [
        replace(
            case, name=f"{case.name}-busy", what=f"{case.what}, beside {BUSY} busy", busy=BUSY, goals=goals, quick=False
        )
        for case in cases
    ]


def all_cases() -> list[Case]:
    """Those of the link as it is, beside busy processes, and of the shaped links."""
    as_it_is: list[Case] = [*CASES, *(_gloo(size) for size in (MB, 16 * MB, 100 * MB)), *PARTED, *beside_others(CASES)]
    as_it_is += [_all_reduces(size) for size in (4000, MB, 16 * MB, 100 * MB)]
    shaped: list[Case] = []
    for link in LINKS:
        shaped += over(link, CASES)
        if link == "1gbit-1ms":
            shaped += [_parted(model, *what, link) for model, what in MODELS.items()]
    return [*as_it_is, *shaped]
