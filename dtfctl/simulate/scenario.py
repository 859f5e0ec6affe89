"""From a cluster spec to tasks on simulated hosts, as many as one likes; models and machines as files."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from dtfctl.launcher.errors import UsageError
from dtfctl.launcher.spec import load_spec
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.spec.units import parse_duration, parse_size
from dtfctl.runtime.collective.all_reduce import ORDERS
from dtfctl.simulate.collectives import Codec
from dtfctl.simulate.engine import MOST_CORES
from dtfctl.simulate.report import Row
from dtfctl.simulate.strategies import STRATEGIES, Model, Scenario, simulate
from dtfctl.simulate.world import Machine, Places

MACHINE_FORMAT = 4
FREE = ("rack_bytes_s", "applied", "spared", "spread")
"""What may be 0 of a machine's costs beside times."""
MOST_VARIABLES = 10_000
MOST_BYTES = 10**18
MOST_EXAMPLES = 10**12
_WHOLE = re.compile(r"\d{1,12}", re.ASCII)


def read_model(text: str) -> Model:
    """Read a model: `BYTES:TIME[:BATCH]`, or a YAML file.

    Its keys are those of `Model`: `variables` is a size such as 25MB or a list of them, `compute_s` a time as 80ms.

    Raises:
        UsageError: it is neither.
    """
    path = Path(text)
    if path.is_file():
        import yaml

        try:
            content = yaml.safe_load(path.read_text())
        except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
            raise UsageError(f"{text} cannot be read: {error}") from None
        return _model_of(content, text)
    size, _, rest = text.partition(":")
    compute, _, batch = rest.partition(":")
    content = {"name": text, "variables": size, "compute_s": compute, "batch": batch}
    if not batch:
        del content["batch"]
    return _model_of(content, text)


def _model_of(content: Any, where: str) -> Model:
    known = {field.name for field in fields(Model)}
    hint = "as 25MB:80ms:32 (variables, processor time of a worker's step, examples in it), or a YAML file"
    if not isinstance(content, Mapping) or not {"variables", "compute_s"} <= content.keys() <= known:
        raise UsageError(f"{where!r} is no model: its keys are {', '.join(sorted(known))}", hint)
    try:
        sizes, compute = content["variables"], content["compute_s"]
        model = Model(
            str(content.get("name", where)),
            tuple(map(_size, sizes if isinstance(sizes, list) else [sizes])),
            parse_duration(compute) if isinstance(compute, str) else float(compute),
            float(content.get("parallel", 0.0)),
            _whole(content.get("batch", 1)),
            _size(content.get("pack", 0)),
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{where!r} is no model: {error}", hint) from None
    is_possible = 0 < len(model.variables) <= MOST_VARIABLES and min(model.variables) > 0 and model.bytes <= MOST_BYTES
    is_possible = is_possible and 0 < model.batch <= MOST_EXAMPLES and 0 <= model.compute_s < math.inf
    if not (is_possible and 0 <= model.parallel <= 1 and model.pack >= 0):
        text = "sizes and batch are above 0, times finite, `parallel` is a share from 0 to 1, and there are at most "
        raise UsageError(
            f"{where!r} is no model: {text}{MOST_VARIABLES:,} variables, {MOST_BYTES:.0e} bytes and "
            f"{MOST_EXAMPLES:.0e} examples",
            hint,
        )
    return model


def _size(value: Any) -> int:
    return parse_size(value) if isinstance(value, str) else _whole(value)


def _whole(value: Any) -> int:
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise ValueError(f"{value!r} is no whole number")
    return int(value)


def write_machine(machine: Machine, path: Path, about: str) -> None:
    """Write what was measured to a file.

    Raises:
        UsageError: it cannot be written.
    """
    text = json.dumps({"version": MACHINE_FORMAT, "about": about, **asdict(machine)}, indent=2) + "\n"
    try:
        path.write_text(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def read_machine(path: Path) -> Machine:
    """Read what `write_machine` wrote.

    Raises:
        UsageError: it is no such file.
    """
    try:
        content = json.loads(path.read_text())
        if content.pop("version") != MACHINE_FORMAT:
            raise ValueError(f"not of version {MACHINE_FORMAT}")
        content.pop("about", None)
        machine = Machine(**{name: type(getattr(Machine, name))(value) for name, value in content.items()})
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "write one with --measure FILE") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise UsageError(f"{path} is no file of measured costs: {error}", "write one with --measure FILE") from None
    for name, value in asdict(machine).items():
        is_free = (name.endswith("_s") and not name.endswith("_bytes_s")) or name in FREE
        if not (0 <= value < math.inf) or (value == 0 and not is_free):
            raise UsageError(f"{path}: `{name}` is {value}", "write costs with --measure FILE")
    if machine.cores > MOST_CORES:
        raise UsageError(f"{path}: `cores` is {machine.cores:,}; at most {MOST_CORES:,} are simulated")
    return machine


def places_of(spec: ClusterSpec, workers: int, ps: int) -> Places:
    """Place workers, and ps tasks after them, on hosts like those of a spec, of which there are as many as it takes.

    Each host has as many workers as in the spec, where these are spread evenly, and racks are as large as there.
    """
    hosts = [host for host in spec.hosts if not host.spare]
    wanted = sum(group.count for job, group in spec.tasks.items() if job in ("worker", "chief"))
    slots = max(-(-wanted // len(hosts)), 1)
    if spec.is_local:
        slots = max(workers, 1)
    on = [worker // slots for worker in range(workers)]
    count = on[-1] + 1
    # A ps has a host of its own as long as there are more than one; else it shares.
    ps_on = [0] * ps if spec.is_local else [(count - 1 - i) % count for i in range(ps)]
    racks = Counter(host.rack for host in hosts if host.rack is not None)
    size = max(racks.values(), default=0)
    return Places((*on, *ps_on), tuple(host // size for host in range(count)) if size else ())


def codec_of(name: str) -> Codec | None:
    """Find what a codec does, by trying it here: None for `none`.

    Raises:
        UsageError: there is no such codec.
    """
    if name == "none":
        return None
    import time

    import numpy as np

    from dtfctl.runtime.compression import decode, encode, parse_codec
    from dtfctl.runtime.framework.errors import InvalidArgumentError

    try:
        codec = parse_codec(name)
    except (InvalidArgumentError, ValueError) as error:
        raise UsageError(f"{name!r} is no codec: {getattr(error, 'message', error)}") from None
    values = np.random.default_rng(0).standard_normal(1 << 18).astype(np.float32)
    state = np.zeros(codec.state_size(values.shape), np.float32)
    best_in = best_out = float("inf")
    for _ in range(5):
        begun = time.perf_counter()
        message = encode(codec, values, state, state)
        between = time.perf_counter()
        decode(codec, message, values.shape)
        best_in = min(best_in, between - begun)
        best_out = min(best_out, time.perf_counter() - between)
    return Codec(message.nbytes / values.nbytes, best_in / values.nbytes, best_out / values.nbytes)


@dataclass(frozen=True)
class Wanted:
    """What is asked for; None and empty lists leave it to the spec.

    Attributes:
        link_bytes_s, rack_bytes_s: see `Machine`.
    """

    spec: Path
    model: str
    workers: Sequence[int] = ()
    strategies: Sequence[str] = ()
    ps: int | None = None
    algorithms: Sequence[str] = ("auto",)
    compression: Sequence[str] = ("none",)
    machine: Machine | None = None
    cores: int | None = None
    link_bytes_s: float | None = None
    rack_bytes_s: float | None = None


@dataclass(frozen=True)
class Run:
    """One simulation that is to be done."""

    strategy: str
    algorithm: str
    compression: str
    workers: int


@dataclass(frozen=True)
class Planned:
    """All that are to be done.

    Attributes:
        alone: examples a second of one worker on one host.
        facts: for a person: what they rest on.
    """

    spec: ClusterSpec
    model: Model
    machine: Machine
    ps: int
    codecs: Mapping[str, Codec | None]
    runs: Sequence[Run]
    alone: float
    facts: Sequence[tuple[str, str]]


def planned(wanted: Wanted) -> Planned:
    """Plan simulations.

    Raises:
        SpecError: the spec is missing or not valid.
        UsageError: something else makes no sense.
    """
    spec = load_spec(str(wanted.spec))
    model = read_model(wanted.model)
    given = {"cores": wanted.cores, "link_bytes_s": wanted.link_bytes_s, "rack_bytes_s": wanted.rack_bytes_s}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    machine = replace(wanted.machine or Machine(), **changes)
    ps = wanted.ps or (spec.tasks["ps"].count if "ps" in spec.tasks else 0)
    strategies = wanted.strategies or (STRATEGIES if ps else ("all-reduce",))
    for strategy in strategies:
        if strategy not in STRATEGIES:
            raise UsageError(f"{strategy!r} is no strategy", f"one of: {', '.join(STRATEGIES)}")
        if strategy != "all-reduce" and not ps:
            raise UsageError(f"{strategy} needs ps tasks, and the spec has none", "give their number: --ps 2")
    for algorithm in wanted.algorithms:
        if algorithm not in (*ORDERS, "auto", "hierarchical"):
            raise UsageError(f"{algorithm!r} is no order", f"one of: auto, hierarchical, {', '.join(ORDERS)}")
    own = sum(group.count for job, group in spec.tasks.items() if job in ("worker", "chief"))
    workers = wanted.workers or sorted({own or 2, 2, 4, 8, 16, 32, 64})
    runs = [
        Run(strategy, algorithm, compression, count)
        for strategy in strategies
        for algorithm in (wanted.algorithms if strategy == "all-reduce" else ("",))
        for compression in (wanted.compression if strategy == "all-reduce" else ("none",))
        for count in workers
    ]
    one = simulate(Scenario(model, machine, "all-reduce", 1, Places([0])))
    facts = [
        ("Model", f"{model.name}: {model.bytes / 1e6:,.4g} MB in {len(model.variables)} variables"),
        ("A worker's step", f"{model.compute_s * 1e3:,.4g} ms of a processor, {model.batch} examples"),
        ("Hosts", f"{machine.cores} processors, {machine.link_bytes_s / 1e6:,.4g} MB/s"),
        ("Between racks", f"{machine.rack_bytes_s / 1e6:,.4g} MB/s" if machine.rack_bytes_s else "no limit"),
        ("A message", f"{machine.message_s * 1e6:.3g} us of a processor"),
    ]
    codecs = {name: codec_of(name) for name in wanted.compression}
    return Planned(spec, model, machine, ps, codecs, runs, one.examples_s, facts)


def row_of(plan: Planned, run: Run) -> Row:
    """Do one simulation."""
    ps = plan.ps if run.strategy != "all-reduce" else 0
    places = places_of(plan.spec, run.workers, ps)
    outcome = simulate(
        Scenario(
            plan.model,
            plan.machine,
            run.strategy,
            run.workers,
            places,
            ps,
            run.algorithm or "auto",
            plan.codecs.get(run.compression),
        )
    )
    parts = (run.strategy, run.algorithm, run.compression)
    series = " ".join(part for part in parts if part not in ("", "none", "auto"))
    share = outcome.examples_s / (plan.alone * run.workers)
    return Row(
        series,
        run.strategy,
        run.algorithm,
        run.compression,
        run.workers,
        len(set(places.hosts)),
        outcome,
        share,
    )
