"""Write what is generated from the code: docs/spec.md, docs/cli.md and the JSON Schema.

python tools/gen_docs.py            write the files that changed
python tools/gen_docs.py --check    exit 1 and name them instead
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

from dtfctl.cli import app
from dtfctl.cli._command import COMMANDS, COMMON, EXITS, CommandInfo
from dtfctl.cli._groups import ORDER
from dtfctl.launcher.spec.reference import reference
from dtfctl.launcher.spec.schema import json_schema

ROOT = Path(__file__).resolve().parent.parent

_HEAD = """\
<!-- Made by `make docs` from dtfctl/cli; do not edit. -->
# The command line

`dtfctl COMMAND --help` shows the same for one command.

Data goes to stdout; progress, hints, warnings and errors go to stderr, and nothing is animated where stderr is not a
terminal. `-o json` and `-o yaml` print documents of a stable shape, `{"version": 1, "kind": ..., ...}`; streams
(`events`, `logs`, `status --watch`) print one JSON object a line. The first line of every answer is the answer, and a
last line on stderr suggests what to type next, after a failure what tells more of it or mends it; `-q` leaves it out.
`dtfctl completion SHELL` prints what your shell needs to complete commands and options, and the names of clusters,
tasks, jobs and hosts. For these it asks a controller
that can be called without a login, for two seconds at most; where none answers it offers what is known on this machine.
It starts nothing.
"""

_SELECTORS = """\
`worker` (all workers), `worker/1`, `worker/0-3`, `ps`, `failed`, `all`, `host:NAME`, and several with commas. The words
`task` and `tasks` may follow: `dtfctl restart failed tasks`. `exec`, `get` and `put` also take `job:ID`, which is every
process of a job, and `job:ID:worker/0`, which is one.
"""


def documents() -> dict[Path, str]:
    """Every generated file and what it must hold."""
    schema = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    return {
        ROOT / "docs" / "spec.md": reference(),
        ROOT / "docs" / "cli.md": command_reference(),
        ROOT / "dtfctl" / "launcher" / "spec" / "schema.json": schema,
    }


def command_reference() -> str:
    """The page about the commands."""
    if set(COMMANDS) != set(ORDER):
        raise SystemExit(f"commands without a place in ORDER: {sorted(set(COMMANDS) ^ set(ORDER))}")
    out = [_HEAD, "## Options of every command\n", *_table(COMMON.items()), ""]
    out += ["## Exit codes\n", "| code | meaning |", "|---|---|"]
    out += [f"| {code} | {text} |" for code, text in EXITS.items()]
    out += [
        "\n`submit` returns the script's own exit code; 128 and a signal's number where a signal ended it.\n",
        "## Selectors\n",
        _SELECTORS,
        "## Variables\n",
        "| variable | meaning |\n|---|---|",
        "| `DTFCTL_CLUSTER` | the cluster, where `-c` does not say |",
        "| `DTFCTL_OUTPUT` | the format, where `-o` does not say |",
        "| `DTFCTL_TIMEOUT` | the time limit, where `--timeout` does not say |",
        "| `DTFCTL_HOME` | the folder of all clusters; `~/.local/state/dtfctl` by default |",
        "| `NO_COLOR` | no colours, if it is not empty |",
        "",
    ]
    for name in ORDER:
        out += _section(COMMANDS[name])
    return "\n".join(out)


def _section(info: CommandInfo) -> list[str]:
    hints = get_type_hints(info.function, include_extras=True)
    parameters = [p for p in inspect.signature(info.function).parameters.values() if p.name != "session"]
    described = [(p.name, (hints[p.name], p.default)) for p in parameters]
    arguments = " ".join(
        str(_info(hint).metavar) for _, (hint, _) in described if isinstance(_info(hint), ArgumentInfo)
    )
    has_options = any(isinstance(_info(hint), OptionInfo) for _, (hint, _) in described)
    usage = " ".join(part for part in ("dtfctl", info.name, "[OPTIONS]" if has_options else "", arguments) if part)
    out = [f"## `dtfctl {info.name}`\n", f"```\n{usage}\n```\n", info.text, ""]
    if described:
        out += [*_table(described), ""]
    out += ["```console", *(f"$ {line}" for line in info.examples), "```\n"]
    out.append(f"Exit codes: {', '.join(str(code) for code in info.exits)}.\n")
    return out


def _table(described: Any) -> list[str]:
    out = ["| option | default | what it does |", "|---|---|---|"]
    for _, (hint, default) in described:
        info = _info(hint)
        if isinstance(info, ArgumentInfo):
            words = f"`{info.metavar}`"
        else:
            kind = "N" if hint_type(hint) is int else "TEXT"
            metavar = "" if hint_type(hint) is bool else f" {info.metavar or kind}"
            # In an `Annotated` hint Typer keeps the first spelling where a default would be.
            flags = [flag for flag in (info.default, *(info.param_decls or ())) if isinstance(flag, str)]
            words = ", ".join(f"`{flag}{metavar}`" for flag in flags)
        shown = "" if default in (None, False, inspect.Parameter.empty) else f"`{default}`"
        out.append(f"| {words} | {shown} | {info.help} |".replace("|JOB", "\\|JOB"))
    return out


def hint_type(hint: Any) -> Any:
    """The type in an `Annotated` hint."""
    return get_args(hint)[0]


def _info(hint: Any) -> ArgumentInfo | OptionInfo:
    if get_origin(hint) is None:
        raise SystemExit(f"{hint} has no typer.Option or typer.Argument")
    return get_args(hint)[1]


def main() -> int:
    """Write or check; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a file is out of date")
    check = parser.parse_args().check
    app.build()
    stale = [path for path, text in documents().items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        if not check:
            path.write_text(documents()[path], "utf-8")
        print(f"{'out of date' if check else 'wrote'}: {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
