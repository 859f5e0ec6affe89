"""Write docs/api.md, the reference of `import dtfctl.runtime as tf`, from signatures and docstrings.

python tools/gen_api_doc.py            write it
python tools/gen_api_doc.py --check    exit 1 when it is out of date
"""

from __future__ import annotations

import argparse
import enum
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from google.protobuf.message import Message

import dtfctl.runtime as tf

TARGET = Path(__file__).resolve().parent.parent / "docs" / "api.md"

_HEAD = """\
<!-- Made by tools/gen_api_doc.py from docstrings; do not edit. -->
# API reference

`import dtfctl.runtime as tf`. Names, arguments and meaning are TensorFlow 1's where it has the name; what is said here
is what this implementation promises. [coming-from-tensorflow-1.md](coming-from-tensorflow-1.md) says what differs,
[ops.md](ops.md) which ops have kernels. Every op type is also there as `tf.raw_ops.NAME`.

{contents}
"""

_SKIPPED = {"raw_ops", "flags"}
"""Namespaces that are described elsewhere, or under another name (`tf.app.flags`)."""

_NESTED = ("dtfctl.runtime.api.", "dtfctl.runtime.keras")
"""Where namespaces have namespaces in them."""

_SIMPLE = (bool, int, float, str, bytes, type(None), tuple)


def namespaces() -> Iterator[tuple[str, Any]]:
    """(`tf.nn`, its module) for the namespaces of tf, and theirs."""
    pending: list[tuple[str, Any]] = [("tf", tf)]
    seen: set[int] = set()
    while pending:
        path, module = pending.pop(0)
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield path, module
        chosen = vars(module).get("__all__")
        if (path.count(".") < 2 or chosen) and (module is tf or module.__name__.startswith(_NESTED)):
            names = [n for n in sorted(chosen or dir(module)) if not n.startswith("_") and n not in _SKIPPED]
            found = [(n, getattr(module, n)) for n in names]
            pending += [(f"{path}.{n}", value) for n, value in found if _is_namespace(value)]


def _is_namespace(value: Any) -> bool:
    return isinstance(value, ModuleType) and value.__name__.startswith("dtfctl.runtime")


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return value.name
    return repr(value) if isinstance(value, _SIMPLE) else getattr(value, "__name__", "...")


def _signature(function: Any) -> str:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return "(...)"
    shown: list[str] = []
    starred = False
    for p in parameters:
        if p.name == "self" or p.name.startswith("_"):
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        if p.kind is p.VAR_POSITIONAL:
            starred = True
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f"={_default(p.default)}"
        shown.append(f"{prefix}{p.name}{default}")
    return f"({', '.join(shown)})"


def _doc(value: Any) -> str:
    """The docstring, its sections as lists."""
    own = vars(value).get("__doc__") if isinstance(value, type) else value.__doc__
    if not own or (isinstance(value, type) and own.startswith(f"{value.__name__}(")):
        return ""
    lines = inspect.cleandoc(own).splitlines()
    out: list[str] = []
    for line in lines:
        section = re.fullmatch(r"(Args|Returns|Raises|Yields|Attributes):", line)
        if section:
            out += ["", f"*{section[1]}*", ""]
        elif line.startswith("    "):
            item = re.fullmatch(r"    (\w.*)", line)
            out.append(f"- {item[1]}" if item else f"  {line.strip()}")
        else:
            out.append(line)
    text = "\n".join(out).replace("<", "&lt;")
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _methods(cls: type, described: set[Any]) -> Iterator[str]:
    """A line for each method and property: its own, and those of bases that have no entry themselves."""
    bases = [b for b in cls.__mro__[1:] if b.__module__.startswith("dtfctl.") and not (described & {*b.__mro__[:-1]})]
    members = {name: value for base in (*reversed(bases), cls) for name, value in vars(base).items()}
    for name, value in sorted(members.items()):
        if name.startswith("_"):
            continue
        plain = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        function = plain.fget if isinstance(plain, property) else plain
        if not inspect.isfunction(function):
            continue
        call = "" if isinstance(plain, property) else _signature(function)
        first = (inspect.cleandoc(function.__doc__).split("\n\n")[0] if function.__doc__ else "").replace("\n", " ")
        yield f"- `{name}{call}`" + (f": {first}" if first else "")


def _entry(path: str, value: Any, described: set[Any]) -> list[str]:
    if isinstance(value, type) and issubclass(value, Message):
        return [f"### `{path}`", "", f"The protocol buffer `{value.DESCRIPTOR.full_name}`.", ""]
    if isinstance(value, type) and issubclass(value, enum.Enum):
        members = ", ".join(f"`{m.name}`" for m in value)
        return [f"### `{path}`", "", *filter(None, [_doc(value)]), f"One of {members}.", ""]
    if isinstance(value, type):
        is_error = issubclass(value, BaseException)
        out = [f"### `{path}{'' if is_error else _signature(value)}`", ""]
        out += [text, ""] if (text := _doc(value)) else []
        methods = [] if is_error else list(_methods(value, described))
        return [*out, *methods, ""] if methods else out
    out = [f"### `{path}{_signature(value)}`", ""]
    return [*out, text, ""] if (text := _doc(value)) else out


def document() -> str:
    """The whole page."""
    contents: list[str] = []
    body: list[str] = []
    described = {v for _, module in namespaces() for v in vars(module).values() if isinstance(v, type)}
    for path, module in namespaces():
        names = [n for n in sorted(getattr(module, "__all__", dir(module))) if not n.startswith("_")]
        found = [(n, getattr(module, n)) for n in names if n != "annotations"]
        public = [(n, v) for n, v in found if callable(v) and _belongs(v, module)]
        if not public:
            continue
        contents.append(f"- [`{path}`](#{path.replace('.', '')}): {len(public)} names")
        doc = "" if module is tf else (module.__doc__ or "").strip()
        body += [f"## {path}", "", *([doc, ""] if doc else [])]
        if constants := [f"`{n}`" for n, v in found if not callable(v) and not isinstance(v, ModuleType)]:
            body += [f"Constants: {', '.join(constants)}.", ""]
        for name, value in public:
            body += _entry(f"{path}.{name}", value, described)
    return _HEAD.format(contents="\n".join(contents)) + "\n" + "\n".join(body).rstrip() + "\n"


def _belongs(value: Any, module: ModuleType) -> bool:
    """Whether a module offers a value, rather than importing it for its own use."""
    if isinstance(value, type) and issubclass(value, Message):
        return True
    home = str(getattr(value, "__module__", ""))
    gathers = module is tf or module.__name__.startswith("dtfctl.runtime.api") or hasattr(module, "__all__")
    return home.startswith("dtfctl" if gathers else module.__name__)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    text = document()
    if not parser.parse_args().check:
        TARGET.write_text(text)
        return 0
    if not TARGET.exists() or TARGET.read_text() != text:
        print("docs/api.md is out of date: run python tools/gen_api_doc.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
