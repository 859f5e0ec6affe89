"""`checkpoint`: what checkpoints hold, in what two differ, and other formats."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Optional

import typer

from dtfctl.cli._command import Session, command
from dtfctl.cli._format import age, columns, number, plural, size
from dtfctl.cli._screen import Screen
from dtfctl.launcher.errors import Conflict, NotFound, UsageError

FORMS = {
    "ls": "checkpoint ls [FOLDER]",
    "show": "checkpoint show PATH [TENSOR...]",
    "diff": "checkpoint diff PATH PATH",
    "convert": "checkpoint convert PATH TO",
}


@command(
    examples=[
        "dtfctl checkpoint ls runs/",
        "dtfctl checkpoint show runs/",
        "dtfctl checkpoint show model.ckpt-100 'dense/*'",
        "dtfctl checkpoint diff model.ckpt-100 model.ckpt-200 --atol 1e-6",
        "dtfctl checkpoint convert model.ckpt-200 model.safetensors --without '*/Adam*'",
        "dtfctl checkpoint convert model.safetensors restored/model.ckpt",
    ],
    exits=[0, 1, 2, 4, 7],
)
def checkpoint(
    session: Session,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="ls [FOLDER] | show PATH [TENSOR...] | diff PATH PATH | convert PATH TO",
            help="PATH is a checkpoint's prefix, a folder (its newest one) or a .safetensors file.",
        ),
    ],
    only: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--only", metavar="PATTERN", help="With `convert`: the tensors whose names fit. May be repeated."),
    ] = None,
    without: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--without", metavar="PATTERN", help="With `convert`: not those that fit. May be repeated."),
    ] = None,
    rtol: Annotated[
        float,
        typer.Option(
            "--rtol", metavar="X", min=0.0, help="With `diff`: apart by X times the first's value is the same."
        ),
    ] = 0.0,
    atol: Annotated[
        float, typer.Option("--atol", metavar="X", min=0.0, help="With `diff`: apart by X is the same.")
    ] = 0.0,
    force: Annotated[bool, typer.Option("--force", help="With `convert`: replace what is there.")] = False,
) -> int:
    """Look into checkpoints: list a folder's, show the tensors of one, compare two, or write one in another format.

    Checkpoints are TensorFlow's own (`tf.train.Saver`, `tf.train.Checkpoint`), with or without a cluster, by whichever
    program they were written; and safetensors files (pip install 'dtfctl[safetensors]'), which PyTorch and JAX programs
    read. `show` with names or patterns of tensors also says their values' range, mean, NaNs and first elements. `diff`
    compares every value, and ends with 1 where the two differ; `ls` does where one is not whole. `convert` goes by what
    TO ends in: .safetensors or, else, a checkpoint that a Saver restores by that prefix.
    """
    verb, *rest = words
    fits = {"ls": len(rest) < 2, "show": bool(rest), "diff": len(rest) == 2, "convert": len(rest) == 2}
    if not fits.get(verb, False):
        raise UsageError(
            f"`checkpoint {' '.join(words)}` is not a command",
            f"It is `{FORMS[verb]}`." if verb in FORMS else f"There are `{'`, `'.join(FORMS.values())}`.",
        )
    if (only or without or force) and verb != "convert":
        raise UsageError("--only, --without and --force go with `checkpoint convert` only")
    if (rtol or atol) and verb != "diff":
        raise UsageError("--rtol and --atol go with `checkpoint diff` only")
    screen = session.screen
    if verb == "ls":
        found = _ask({"verb": verb, "path": rest[0] if rest else "."})
        if screen.is_data:
            screen.data("CheckpointList", {"checkpoints": found})
        else:
            _print_list(found, rest[0] if rest else ".", screen)
        return 1 if any(item["problem"] for item in found) else 0
    if verb == "show":
        found = _ask({"verb": verb, "path": rest[0], "names": rest[1:]})
        screen.data("Checkpoint", found) if screen.is_data else _print_tensors(found, screen)
        return 0
    if verb == "diff":
        found = _ask({"verb": verb, "first": rest[0], "second": rest[1], "rtol": rtol, "atol": atol})
        screen.data("CheckpointDiff", found) if screen.is_data else _print_differences(found, screen)
        return 1 if found["differences"] else 0
    found = _ask(
        {"verb": verb, "path": rest[0], "to": rest[1], "only": only or [], "without": without or [], "force": force}
    )
    if screen.is_data:
        screen.data("CheckpointConversion", found)
    else:
        screen.print(f"{found['to']}: {plural(found['tensors'], 'tensor')} of {found['from']}")
    return 0


def _ask(what: Mapping[str, Any]) -> Any:
    """Have it done by a process that may import the runtime, which knows the formats."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "dtfctl.checkpoint_files"],
        input=json.dumps(what),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(f"dtfctl.checkpoint_files ended with {done.returncode} and without an answer") from None
    if "error" in answer:
        if answer["missing"]:
            raise NotFound(answer["error"])
        raise Conflict(answer["error"])
    return answer["found"]


def _print_list(found: Sequence[Mapping[str, Any]], folder: str, screen: Screen) -> None:
    now = time.time()
    rows = [
        (
            item["path"],
            "-" if item["step"] is None else f"{item['step']:,}",
            age(item["saved"], now),
            size(item["bytes"]),
            "-" if item["tensors"] is None else str(item["tensors"]),
            item["problem"] or ("newest" if item["newest"] else ""),
        )
        for item in found
    ]
    for line in columns(("CHECKPOINT", "STEP", "AGE", "SIZE", "TENSORS", "REASON"), rows, screen.style, screen.width):
        screen.print(line)
    if not rows:
        screen.print(f"no checkpoints in {folder}")


def _print_tensors(found: Mapping[str, Any], screen: Screen) -> None:
    tensors = found["tensors"]
    step = "" if found["step"] is None else f", step {found['step']:,}"
    total = size(sum(item["bytes"] or 0 for item in tensors))
    screen.print(f"{found['path']}: {plural(len(tensors), 'tensor')}, {total}{step}")
    rows = [
        (item["name"], item["type"], "x".join(map(str, item["shape"])) or "scalar", size(item["bytes"]))
        for item in tensors
    ]
    for line in columns(("TENSOR", "TYPE", "SHAPE", "SIZE"), rows, screen.style, screen.width):
        screen.print(line)
    for item in tensors:
        if "first" in item:
            screen.print("")
            screen.print(f"{item['name']}:")
            facts = [f"{name} {number(item[name])}" for name in ("min", "max", "mean", "std") if name in item]
            facts += [f"{item[key]:,} {key}" for key in ("nan", "infinite", "zero") if item.get(key)]
            if facts:
                screen.print("  " + ", ".join(facts))
            many = " ..." if len(item["first"]) < _count(item["shape"]) else ""
            screen.print("  " + " ".join(map(_element, item["first"])) + many)


def _count(shape: Sequence[int]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


def _element(item: Any) -> str:
    return f"{item:.6g}" if isinstance(item, float) else repr(item)


def _print_differences(found: Mapping[str, Any], screen: Screen) -> None:
    differ = found["differences"]
    rows = [(item["name"], item["kind"], item["what"]) for item in differ]
    for line in columns(("TENSOR", "DIFFERS IN", "REASON"), rows, screen.style, screen.width):
        screen.print(line)
    if differ:
        screen.print(f"{plural(len(differ), 'difference')} between {found['first']} and {found['second']}")
    else:
        screen.print(f"{plural(found['compared'], 'tensor')} of {found['first']} and {found['second']} are the same")
