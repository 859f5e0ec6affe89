"""Write dtfctl/runtime/api/_exported, the imports of the names that the entries of ops export.

python tools/gen_api_exports.py            write it
python tools/gen_api_exports.py --check    exit 1 when it is out of date
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from dtfctl.runtime.ops import op_defs

TARGET = Path(__file__).resolve().parent.parent / "dtfctl" / "runtime" / "api" / "_exported"
ROOT = "tf"
"""The module of the names of `tf` itself."""

_NOTE = "# Made by tools/gen_api_exports.py from the `exports` of the entries; do not edit.\n"


def exports() -> dict[str, dict[str, set[tuple[str, str]]]]:
    """Gather {namespace: {module of entries: (the function's name there, its name in the namespace)}}.

    Raises:
        SystemExit: an entry exports a function that it has not, or a name that another has.
    """
    found: dict[str, dict[str, set[tuple[str, str]]]] = defaultdict(lambda: defaultdict(set))
    owner: dict[str, str] = {}
    for family in op_defs.__all__:
        module = getattr(op_defs, family)
        bound = {id(value): name for name, value in vars(module).items()}
        for public, function in module.define.exports.items():
            if function is None or id(function) not in bound:
                raise SystemExit(f"{module.__name__}: the entry that exports tf.{public} has no function of a name")
            if (other := owner.setdefault(public, family)) != family:
                raise SystemExit(f"tf.{public} is exported by op_defs/{other}.py and op_defs/{family}.py")
            namespace, _, name = public.rpartition(".")
            found[namespace or ROOT][module.__name__].add((bound[id(function)], name))
    return found


def files() -> dict[str, str]:
    """Give each file's text by its name."""
    texts = {"__init__.py": f'"""Names of `tf` that entries of ops export: a module a namespace."""\n\n{_NOTE}'}
    for namespace, modules in exports().items():
        shown = "tf" if namespace == ROOT else f"tf.{namespace}"
        lines = [f'"""Names of `{shown}` that entries of ops export."""\n\n', _NOTE, "\n"]
        for module, names in sorted(modules.items()):
            parts = sorted(name if name == public else f"{name} as {public}" for name, public in names)
            listed = parts[0] if len(parts) == 1 else "".join(["(\n", *(f"    {part},\n" for part in parts), ")"])
            lines.append(f"from {module} import {listed}\n")
        texts[f"{namespace}.py"] = "".join(lines)
    return texts


def main() -> int:
    """Write or check."""
    new = files()
    old = {path.name: path.read_text() for path in TARGET.glob("*.py")}
    if "--check" in sys.argv[1:]:
        for name in sorted(n for n in {*old, *new} if old.get(n) != new.get(n)):
            print(f"{TARGET.name}/{name} is out of date: run python tools/gen_api_exports.py", file=sys.stderr)
        return int(new != old)
    TARGET.mkdir(exist_ok=True)
    for name in old.keys() - new.keys():
        (TARGET / name).unlink()
    for name, text in new.items():
        (TARGET / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
