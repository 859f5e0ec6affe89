"""The command `simulate`: how fast training would be on machines that one may not have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from dtfctl.cli._command import Session, command
from dtfctl.cli._format import columns
from dtfctl.launcher.errors import UsageError
from dtfctl.simulate.engine import MOST_CORES

MOST_WORKERS = 4096
MOST_RUNS = 500
_NUMBER = re.compile(r"\d{1,12}", re.ASCII)


@command(
    examples=[
        "dtfctl simulate --measure costs.json",
        "dtfctl simulate lab.yaml --model 100MB:120ms:64 --machine costs.json",
        "dtfctl simulate lab.yaml --model resnet.yaml --workers 8,100,1000 --strategies all-reduce,ps-async --ps 4",
        "dtfctl simulate lab.yaml --model 100MB:120ms --compression none,int8 --link 125MB/s --to report.html",
    ],
    exits=[0, 1, 2, 3],
)
def simulate(
    session: Session,
    spec: Annotated[Optional[Path], typer.Argument(metavar="[SPEC]", help="A cluster's spec file.")] = None,  # noqa: UP045
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="BYTES:TIME[:BATCH]|FILE",
            help="Variables, a worker's processor time a step, its examples; or YAML.",
        ),
    ] = "",
    workers: Annotated[
        str, typer.Option("--workers", metavar="N,...", help="How many; by default those of the spec, and 2 to 64.")
    ] = "",
    strategies: Annotated[
        str, typer.Option("--strategies", metavar="NAME,...", help="all-reduce, ps-sync, ps-async.")
    ] = "",
    ps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--ps", min=1, max=MOST_WORKERS, help="How many ps; by default the spec's."),
    ] = None,
    algorithms: Annotated[
        str, typer.Option("--algorithms", metavar="NAME,...", help="Orders of all-reduces; auto: what tasks choose.")
    ] = "auto",
    compression: Annotated[
        str, typer.Option("--compression", metavar="CODEC,...", help="Of all-reduces between hosts; none, int8, ...")
    ] = "none",
    machine: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--machine", metavar="FILE", help="Measured costs, from --measure; else typical ones."),
    ] = None,
    cores: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--cores", min=1, max=MOST_CORES, help="Processors of each host."),
    ] = None,
    link: Annotated[str, typer.Option("--link", metavar="RATE", help="What a host's network carries, as 1GB/s.")] = "",
    rack_link: Annotated[
        str, typer.Option("--rack-link", metavar="RATE", help="What all hosts of a rack share towards other racks.")
    ] = "",
    measure: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--measure", metavar="FILE", help="Measure this machine for a minute, and write its costs."),
    ] = None,
    to: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--to", metavar="FILE.html", help="Write the report with plots there, too."),
    ] = None,
) -> int:
    """Predict step times and scaling of strategies, all-reduce algorithms and compression, without starting anything.

    What is simulated are the algorithms that tasks run, message by message, on hosts whose tasks share processors and
    network. Hosts, their workers and racks are like the spec's, as many as it takes. Costs come from --measure on one
    of the machines, near idle; a model's processor time from a step of one worker (`dtfctl profile`, `status`).

    Good for comparing, not for promising: docs/simulation.md tells how far it was off real steps.
    """
    from dtfctl.simulate import measuring, scenario

    if measure is not None:
        _check_place("--measure", measure)
        try:
            found = measuring.measure(session.screen.note)
        except RuntimeError as error:
            raise UsageError(f"nothing was measured: {error}") from None
        scenario.write_machine(found, measure, "measured by dtfctl simulate --measure")
        session.screen.note(f"written to {measure}")
        if spec is None:
            return 0
    if spec is None:
        raise UsageError("a spec file is missing", "dtfctl simulate SPEC --model BYTES:TIME, or --measure FILE alone")
    if not model:
        raise UsageError("--model is missing", "as --model 25MB:80ms:32, or a YAML file")
    if to is not None:
        _check_place("--to", to)
    costs = machine or measure
    chosen = None if costs is None else scenario.read_machine(costs)
    return _run(
        session,
        scenario.Wanted(
            spec=spec,
            model=model,
            workers=_numbers(workers),
            strategies=_words(strategies),
            ps=ps,
            algorithms=_words(algorithms) or ["auto"],
            compression=_words(compression) or ["none"],
            machine=chosen,
            cores=cores,
            link_bytes_s=_rate("--link", link),
            rack_bytes_s=_rate("--rack-link", rack_link),
        ),
        to,
    )


def _run(session: Session, wanted: Any, to: Path | None) -> int:
    from dataclasses import asdict

    from dtfctl.simulate import report, scenario

    plan = scenario.planned(wanted)
    if len(plan.runs) > MOST_RUNS or max(run.workers for run in plan.runs) > MOST_WORKERS:
        raise UsageError(f"at most {MOST_RUNS} simulations, of at most {MOST_WORKERS:,} workers each")
    rows = []
    for run in plan.runs:
        rows.append(scenario.row_of(plan, run))
        session.screen.note(f"{rows[-1].series}, {run.workers:,} workers: {report.duration(rows[-1].outcome.step_s)}")
    screen = session.screen
    if screen.is_data:
        runs = [
            {
                "strategy": row.strategy,
                "algorithm": row.algorithm,
                "compression": row.compression,
                "workers": row.workers,
                "hosts": row.hosts,
                **asdict(row.outcome),
                "share_of_ideal": row.share,
            }
            for row in rows
        ]
        screen.data("Simulation", {"model": asdict(plan.model), "machine": asdict(plan.machine), "runs": runs})
    else:
        for line in columns(report.HEADS, report.table(rows)):
            screen.print(line)
    if to is not None:
        text = report.page(f"Simulation of {plan.model.name}", plan.facts, rows)
        try:
            to.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--to {to}: {error.strerror}") from None
        screen.note(f"written to {to}")
    return 0


def _check_place(option: str, path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{option} {path}: that is a folder")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str) -> list[int]:
    words = _words(text)
    if not all(_NUMBER.fullmatch(word) and int(word) > 0 for word in words):
        raise UsageError(f"--workers {text}: these are no numbers of workers", "as --workers 2,8,100")
    return [int(word) for word in words]


def _rate(option: str, text: str) -> float | None:
    from dtfctl.launcher.spec.units import parse_rate

    if not text:
        return None
    try:
        rate = parse_rate(text)
    except ValueError:
        raise UsageError(f"{option} {text}: this is no rate", "as 125MB/s") from None
    if rate <= 0:
        raise UsageError(f"{option} {text}: a rate is above 0")
    return float(rate)
