"""Commands about spec files, which need no cluster: `init`, `validate`, `config`, `schema`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from dtfctl.cli._command import Session, command
from dtfctl.cli._format import columns, plural

_STARTER = """\
# A cluster on this machine. All keys: docs/spec.md, or `dtfctl schema` for your editor.
cluster: {name}
{hosts}tasks:
  ps: {ps}        # parameter servers: hold the variables
  worker: {worker}    # workers: compute

restart: {{attempts: 5, within: 10m}}    # more failures than this: the task is `crashed` and waits for you
"""


@command(
    examples=["dtfctl init", "dtfctl init lab.yaml --name lab --hosts 'alice@node[1-4]' --worker 8"],
    exits=[0, 2, 7],
)
def init(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write it.")] = Path("cluster.yaml"),
    name: Annotated[str | None, typer.Option("--name", help="The cluster's name; the file's by default.")] = None,
    ps: Annotated[int, typer.Option("--ps", min=0, help="How many parameter servers.")] = 1,
    worker: Annotated[int, typer.Option("--worker", min=0, help="How many workers.")] = 2,
    hosts: Annotated[
        str | None, typer.Option("--hosts", metavar="HOSTS", help="Host names, such as node[1-4].")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
) -> None:
    """Write a starter spec that is ready for `dtfctl up`.

    It is checked before it is written; a file that is there is left alone without --force.
    """
    from dtfctl.launcher.errors import Conflict, UsageError
    from dtfctl.launcher.spec import InvalidSpec, parse_spec

    chosen = name or _cluster_name(file)
    where = f"hosts: {json.dumps(hosts)}\n" if hosts else ""
    text = _STARTER.format(name=chosen, hosts=where, ps=ps, worker=worker)
    try:
        parse_spec(text, str(file))
    except InvalidSpec as error:
        raise UsageError(f"no valid spec comes of these options:\n{error.render()}") from None
    try:
        with file.open("w" if force else "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise Conflict(f"{file} exists", "Choose another name, or overwrite it with --force.") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None
    if session.screen.is_data:
        session.screen.data("SpecFile", {"file": str(file), "cluster": chosen})
    else:
        session.screen.print(f"wrote {file}: cluster {chosen}, {plural(ps + worker, 'task')}")
    session.screen.next(f"dtfctl up {file}")


def _cluster_name(file: Path) -> str:
    """Make a cluster name from a file name, `dev` where that leaves nothing."""
    stem = file.stem if file.stem != "cluster" else file.resolve().parent.name
    name = "".join(char if char.isascii() and char.isalnum() else "-" for char in stem.lower()).strip("-")
    return name[:40].strip("-") or "dev"


@command(
    examples=[
        "dtfctl validate cluster.yaml",
        "dtfctl validate cluster-examples/*.yaml",
        "dtfctl validate --strict lab.yaml",
        "dtfctl validate lab.yaml -o json",
    ],
    exits=[0, 2, 3],
)
def validate(
    session: Session,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Spec files.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse also what `up` would miss here, and what looks like a mistake.")
    ] = False,
) -> int:
    """Check spec files and say everything that is wrong; start nothing.

    Each problem has its file, line and column, the line itself, what was expected and the nearest valid key. With
    -o json, prints the hosts and tasks a valid file stands for.

    --strict is for the machine where `up` will be typed: files to send, keys and variables have to be there, every
    host group has to be of use to some task, and tasks must not be given up at their first failure.
    """
    from dtfctl.launcher.spec import InvalidSpec, load_spec

    screen = session.screen
    found: list[dict[str, Any]] = []
    code = 0
    for file in files:
        try:
            spec = load_spec(file, os.environ, for_up=True, strict=True) if strict else load_spec(file)
        except InvalidSpec as error:
            code = error.exit_code
            problems = [
                {"line": p.line, "column": p.column, "message": p.message, "expected": p.expected}
                for p in error.problems
            ]
            found.append({"file": file, "valid": False, "problems": problems})
            if not screen.is_data:
                screen.print(f"{file} is not valid: {plural(len(problems), 'problem')}")
                screen.note(error.render())
            continue
        tasks, hosts = len(spec.task_names), len(spec.hosts)
        found.append(
            {
                "file": file,
                "valid": True,
                "cluster": spec.cluster,
                "hosts": [
                    {"name": h.name, "group": h.group, "slots": h.slots, "rack": h.rack, "spare": h.spare}
                    for h in spec.hosts
                ],
                "tasks": list(spec.task_names),
            }
        )
        if not screen.is_data:
            screen.print(f"{file} is valid: cluster {spec.cluster}, {plural(tasks, 'task')} on {plural(hosts, 'host')}")
    if screen.is_data:
        screen.data("Validation", {"files": found})
    elif code == 0 and len(files) == 1:
        screen.next(f"dtfctl up {files[0]}")
    return code


@command(
    examples=["dtfctl config", "dtfctl config cluster.yaml", "dtfctl config cluster.yaml -o yaml > resolved.yaml"],
    exits=[0, 2, 3],
)
def config(
    session: Session,
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="A spec file.")] = None,
) -> None:
    """Show every setting of a spec, defaults included, and where each comes from.

    With -o yaml or -o json, prints the whole spec with all defaults filled in, which is itself a valid spec. Without a
    FILE, shows dtfctl's own settings: a flag is stronger than a variable, and a variable than the default.
    """
    from dtfctl.launcher.spec import load_spec, settings, to_document

    screen = session.screen
    if file is None:
        found = session.settings()
        if screen.is_data:
            rows_of = [{"name": item.name, "value": item.value, "from": item.origin} for item in found]
            screen.data("Settings", {"settings": rows_of})
            return
        rows = [(item.name, item.value, item.origin) for item in found]
        for line in columns(("SETTING", "VALUE", "FROM"), rows, lambda t, c: screen.style(t, c) if c == "bold" else t):
            screen.print(line)
        return
    if screen.output == "json":
        screen.print(json.dumps(to_document(load_spec(file)), indent=2))
        return
    if screen.output == "yaml":
        import yaml

        screen.print(yaml.safe_dump(to_document(load_spec(file)), sort_keys=False).rstrip())
        return
    rows = [(setting.key, setting.value, setting.origin) for setting in settings(file)]
    for line in columns(("KEY", "VALUE", "FROM"), rows, lambda t, c: screen.style(t, c) if c == "bold" else t):
        screen.print(line)


@command(examples=["dtfctl schema > cluster.schema.json"], exits=[0])
def schema(session: Session) -> None:
    """Print the JSON Schema of spec files, which editors use to complete and check them.

    With the YAML extension of an editor, put this line at the top of a spec:
    `# yaml-language-server: $schema=cluster.schema.json`
    """
    from dtfctl.launcher.spec.schema import json_schema

    session.screen.print(json.dumps(json_schema(), indent=2))
