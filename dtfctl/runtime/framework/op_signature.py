"""Op signatures: names, types and attributes of every op the runtime knows, equal to TensorFlow's OpDefs.

Ops with more facts that are short (shape rule, gradient, function) have an entry in `ops/op_defs`; the others are lines
of `signatures/*.opdef`. They are parsed when first asked for. The notation is also what a custom op is registered in:

    MatMul(a: T, b: T) -> (product: T); transpose_a: bool = false; T: type in {float, double}; !stateful

An argument's type is a dtype word, the name of a type attribute (`T`), `N * T` (a list of N tensors), `list(Ts)` (as
many tensors as the attribute holds types) or `ref(...)` of the first two. An attribute is `name: kind [in {...}]
[>= min] [= default]`; kinds are int, float, bool, string, type, shape, tensor, func and list(kind). Flags follow a `!`.

`!precision(allow)` says what mixed precision may do to float32 inputs, in the words of TensorFlow's rewrite: an op that
is `allow`ed gains by it; `infer` is safe unless its inputs come from a `deny`, which loses too much; `clear` only moves
or compares numbers, and loses nothing. `!precision(float16: deny, bfloat16: infer)` tells the two types apart. An op
that says nothing stays as it is.

`!called(concat)` is what TensorFlow's functions call their nodes of the op unless they are told, where that is not its
type.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any, Literal, get_args

from dtfctl.protocol import graph_pb2, tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError
from dtfctl.runtime.framework.op_library import load_entries
from dtfctl.runtime.framework.plugins import load_plugins
from dtfctl.runtime.framework.tensor_shape import TensorShape


@dataclass(frozen=True, slots=True)
class Arg:
    """One input or output. Exactly one of `dtype`, `type_attr` and `type_list_attr` is set."""

    name: str
    dtype: DType | None = None
    type_attr: str = ""
    number_attr: str = ""
    type_list_attr: str = ""
    is_ref: bool = False

    @property
    def is_list(self) -> bool:
        return bool(self.number_attr or self.type_list_attr)


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute: its kind, limits and default (None when it must be given)."""

    name: str
    kind: str
    default: graph_pb2.AttrValue | None = None
    allowed: tuple[Any, ...] = ()
    minimum: int | None = None

    @property
    def is_list(self) -> bool:
        return self.kind.startswith("list(")


Precision = Literal["allow", "infer", "deny", "clear"]


@dataclass(frozen=True)
class OpSignature:
    """What an op takes, gives and is configured by."""

    name: str
    inputs: tuple[Arg, ...]
    outputs: tuple[Arg, ...]
    attrs: tuple[Attr, ...]
    is_stateful: bool = False
    is_commutative: bool = False
    is_aggregate: bool = False
    allows_uninitialized_input: bool = False
    control_outputs: tuple[str, ...] = ()
    # What an OpDef does not have.
    in_float16: Precision | None = field(default=None, compare=False)
    in_bfloat16: Precision | None = field(default=None, compare=False)
    called: str = field(default="", compare=False)

    @cached_property
    def attr_by_name(self) -> dict[str, Attr]:
        return {a.name: a for a in self.attrs}

    @cached_property
    def has_ref_input(self) -> bool:
        return any(a.is_ref for a in self.inputs)

    @cached_property
    def has_ref_output(self) -> bool:
        return any(a.is_ref for a in self.outputs)

    @cached_property
    def has_list_output(self) -> bool:
        return any(a.is_list for a in self.outputs)

    @cached_property
    def inferred_attrs(self) -> frozenset[str]:
        """Attributes that follow from the inputs, and so are never parameters of the Python function."""
        names = {n for a in self.inputs for n in (a.type_attr, a.number_attr, a.type_list_attr) if n}
        return frozenset(names)

    @cached_property
    def takes_functions(self) -> bool:
        return any(a.kind in ("func", "list(func)") for a in self.attrs)

    @cached_property
    def typing_attrs(self) -> tuple[str, ...]:
        """Attributes that the types of inputs and outputs follow from."""
        names = (n for a in (*self.inputs, *self.outputs) for n in (a.type_attr, a.number_attr, a.type_list_attr) if n)
        return tuple(dict.fromkeys(names))

    @cached_property
    def known_types(self) -> dict[tuple[Any, ...], tuple[tuple[DType, ...], tuple[DType, ...]]]:
        """Types of inputs and outputs by the values of `typing_attrs`, as they are found out."""
        return {}

    def to_proto(self) -> graph_pb2.OpDef:
        proto = graph_pb2.OpDef(
            name=self.name,
            is_stateful=self.is_stateful,
            is_commutative=self.is_commutative,
            is_aggregate=self.is_aggregate,
            allows_uninitialized_input=self.allows_uninitialized_input,
            control_output=self.control_outputs,
        )
        for args, into in ((self.inputs, proto.input_arg), (self.outputs, proto.output_arg)):
            for a in args:
                into.add(
                    name=a.name,
                    type=a.dtype.as_datatype_enum if a.dtype else 0,
                    type_attr=a.type_attr,
                    number_attr=a.number_attr,
                    type_list_attr=a.type_list_attr,
                    is_ref=a.is_ref,
                )
        for attr in self.attrs:
            out = proto.attr.add(name=attr.name, type=attr.kind)
            if attr.default is not None:
                out.default_value.CopyFrom(attr.default)
            if attr.minimum is not None:
                out.has_minimum, out.minimum = True, attr.minimum
            if attr.allowed:
                words = out.allowed_values.list
                if "type" in attr.kind:
                    words.type.extend(t.as_datatype_enum for t in attr.allowed)
                else:
                    words.s.extend(w.encode() for w in attr.allowed)
        return proto

    @classmethod
    def from_proto(cls, proto: graph_pb2.OpDef) -> OpSignature:
        """Read the signature in an OpDef: how library functions describe themselves."""

        def arg(a: graph_pb2.OpDef.ArgDef) -> Arg:
            dtype = dtypes.as_dtype(a.type) if a.type else None
            return Arg(a.name, dtype, a.type_attr, a.number_attr, a.type_list_attr, a.is_ref)

        def attr(a: graph_pb2.OpDef.AttrDef) -> Attr:
            allowed: tuple[Any, ...] = ()
            if a.HasField("allowed_values"):
                words = a.allowed_values.list
                allowed = tuple(dtypes.as_dtype(t) for t in words.type) or tuple(w.decode() for w in words.s)
            default = a.default_value if a.HasField("default_value") else None
            return Attr(a.name, a.type, default, allowed, a.minimum if a.has_minimum else None)

        return cls(
            proto.name,
            tuple(map(arg, proto.input_arg)),
            tuple(map(arg, proto.output_arg)),
            tuple(map(attr, proto.attr)),
            proto.is_stateful,
            proto.is_commutative,
            proto.is_aggregate,
            proto.allows_uninitialized_input,
            tuple(proto.control_output),
        )


def known_signature(op: str) -> OpSignature | None:
    """Find a signature as `find_signature` does, but ask no plugin: plugins may import the modules that ask here."""
    known = _REGISTERED.get(op)
    if known is None and (found := _notations().get(op)) is not None:
        known = _REGISTERED[op] = parse_signature(found[1])
    return known


def find_signature(op: str) -> OpSignature | None:
    """Find the signature of `op`, or None when no such op exists."""
    known = known_signature(op)
    if known is None:
        load_plugins()
        return _REGISTERED.get(op)
    return known


def get_signature(op: str) -> OpSignature:
    """Find the signature of `op`.

    Raises:
        NotFoundError: no op of that name is registered.
    """
    known = find_signature(op)
    if known is None:
        import difflib

        near = difflib.get_close_matches(op, op_names(), n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise NotFoundError(
            f"Op type not registered '{op}' in this runtime.{hint} Make sure the op is registered in every process "
            "that uses it (custom ops: the package that registers it must be importable on the task)."
        )
    return known


def op_names() -> list[str]:
    """List every op that has a signature, sorted."""
    return sorted({*_notations(), *_REGISTERED})


def op_family(op: str) -> str:
    """Find the family an op is entered in ("math", "nn", ...); "custom" for ops registered by a user."""
    return _notations().get(op, ("custom", ""))[0]


def register_op(notation: str) -> OpSignature:
    """Add an op, described in the notation of this module.

    Raises:
        InvalidArgumentError: the notation cannot be parsed, or another op of that name exists.
    """
    signature = parse_signature(notation)
    existing = known_signature(signature.name)
    if existing is not None and existing != signature:
        raise InvalidArgumentError(f"Op '{signature.name}' is registered already with another signature")
    _REGISTERED[signature.name] = signature
    return signature


def add_notation(family: str, notation: str) -> str:
    """Enter an op of this package, whose notation is parsed when it is first asked for, and return its type."""
    op = notation[: notation.index("(")]
    _ENTERED[op] = (family, notation)
    return op


_REGISTERED: dict[str, OpSignature] = {}
_ENTERED: dict[str, tuple[str, str]] = {}


@lru_cache(maxsize=1)
def _notations() -> dict[str, tuple[str, str]]:
    """Collect the family and notation of each op: the entries of the library of ops, and the lines of `signatures`."""
    load_entries()
    folder = resources.files("dtfctl.runtime.framework") / "signatures"
    files = [f for f in folder.iterdir() if f.name.endswith(".opdef")]
    lines = ((f.name.removesuffix(".opdef"), line) for f in files for line in f.read_text().splitlines())
    return {**{line[: line.index("(")]: (family, line) for family, line in lines}, **_ENTERED}


_HEAD = re.compile(r"\s*(\w+)\s*\((.*?)\)\s*->\s*\((.*)\)\s*$", re.DOTALL)
_ATTR = re.compile(
    r"\s*(\w+)\s*:\s*(list\(\w+\)|\w+)\s*(?:in\s*\{(.*?)\}\s*)?(?:>=\s*(-?\d+)\s*)?(?:=\s*(.*?))?\s*$",
    re.DOTALL,
)
_FLAG = re.compile(r"\w+\([^)]*\)|\w+")
_REF = re.compile(r"ref\((.*)\)$")


def parse_signature(notation: str) -> OpSignature:
    """Parse one signature.

    Raises:
        InvalidArgumentError: it is malformed; the message quotes the part that is.
    """
    head, *rest = _split(notation, ";")
    match = _HEAD.match(head)
    if not match:
        raise InvalidArgumentError(f"Op signature {head!r} is not of the form Name(a: T, ...) -> (y: T, ...)")
    name, inputs, outputs = match.groups()
    attrs: list[Attr] = []
    flags: list[str] = []
    for part in rest:
        part = part.strip()
        if part.startswith("!"):
            flags += _FLAG.findall(part[1:])
        elif part:
            attrs.append(_parse_attr(part, name))
    given = {(parts := f.removesuffix(")").split("("))[0]: parts[1] for f in flags if "(" in f}
    unknown = {f for f in flags if "(" not in f} - {"stateful", "commutative", "aggregate", "uninitialized_input"}
    unknown |= given.keys() - {"control_output", "precision", "called"}
    if unknown:
        raise InvalidArgumentError(f"Op '{name}': unknown flag {sorted(unknown)[0]!r}")
    return OpSignature(
        name,
        _parse_args(inputs, name),
        _parse_args(outputs, name),
        tuple(attrs),
        "stateful" in flags,
        "commutative" in flags,
        "aggregate" in flags,
        "uninitialized_input" in flags,
        tuple(given.get("control_output", "").split()),
        called=given.get("called", ""),
        **_parse_precision(given.get("precision", ""), name),
    )


def _parse_precision(text: str, op: str) -> dict[str, Any]:
    """Read `allow`, or `float16: allow, bfloat16: infer`, as the fields of a signature."""
    found = {}
    for part in filter(None, text.split(",")):
        types, _, word = part.rpartition(":")
        if types.strip() not in ("", "float16", "bfloat16") or word.strip() not in get_args(Precision):
            raise InvalidArgumentError(
                f"Op '{op}': !precision({text}) is not one of {', '.join(get_args(Precision))}, nor "
                "float16: WORD, bfloat16: WORD"
            )
        for dtype in [types.strip()] if types else ["float16", "bfloat16"]:
            found[f"in_{dtype}"] = word.strip()
    return found


def _parse_args(text: str, op: str) -> tuple[Arg, ...]:
    return tuple(_parse_arg(part, op) for part in _split(text, ",") if part.strip())


def _parse_arg(text: str, op: str) -> Arg:
    found = _ARGS.get(text)
    if found is None:
        found = _ARGS[text] = _read_arg(text, op)
    return found


def _parse_attr(text: str, op: str) -> Attr:
    found = _ATTRS.get(text)
    if found is None:
        found = _ATTRS[text] = _read_attr(text, op)
    return found


_ARGS: dict[str, Arg] = {}
_ATTRS: dict[str, Attr] = {}
"""Attributes that were parsed already, by their text: ops have the same ones over and over."""


def _read_arg(text: str, op: str) -> Arg:
    arg_name, _, kind = (p.strip() for p in text.partition(":"))
    if not kind:
        raise InvalidArgumentError(f"Op '{op}': argument {text.strip()!r} is not of the form name: type")
    number = ""
    if "*" in kind:
        number, kind = (p.strip() for p in kind.split("*"))
    if kind.startswith("list("):
        return Arg(arg_name, type_list_attr=kind[5:-1])
    ref = _REF.match(kind)
    word = ref.group(1) if ref else kind
    dtype = None if word not in dtypes._BY_NAME else dtypes.as_dtype(word)
    return Arg(arg_name, dtype, "" if dtype else word, number, is_ref=ref is not None)


def _read_attr(text: str, op: str) -> Attr:
    match = _ATTR.match(text)
    if not match:
        raise InvalidArgumentError(f"Op '{op}': attribute {text!r} is not of the form name: kind = default")
    name, kind, allowed, minimum, default = match.groups()
    words: tuple[Any, ...] = ()
    if allowed is not None:
        parts = [w.strip() for w in allowed.split(",")]
        words = tuple(dtypes.as_dtype(w) for w in parts) if "type" in kind else tuple(json.loads(w) for w in parts)
    return Attr(
        name,
        kind,
        None if default is None else _parse_value(kind, default),
        words,
        None if minimum is None else int(minimum),
    )


def _parse_value(kind: str, text: str) -> graph_pb2.AttrValue:
    value = graph_pb2.AttrValue()
    if kind.startswith("list("):
        value.list.SetInParent()
        for item in _split(text[1:-1], ","):
            if not item.strip():
                continue
            one = _parse_value(kind[5:-1], item.strip())
            which = one.WhichOneof("value")
            field = getattr(value.list, str(which))
            field.add().CopyFrom(getattr(one, str(which))) if which in ("shape", "tensor") else field.append(
                getattr(one, str(which))
            )
    elif kind == "string":
        value.s = json.loads(text).encode()
    elif kind == "int":
        value.i = int(text)
    elif kind == "float":
        value.f = float(text)
    elif kind == "bool":
        value.b = text == "true"
    elif kind == "type":
        value.type = dtypes.as_dtype(text).as_datatype_enum  # type: ignore[assignment]
    elif kind == "shape":
        dims = None if text == "unknown" else [None if d == "?" else int(d) for d in re.findall(r"[?\d]+", text)]
        value.shape.CopyFrom(TensorShape(dims).as_proto())
    elif kind == "func":
        value.func.name = text[5:-1]
    elif kind == "tensor":
        value.tensor.CopyFrom(tensor_pb2.TensorProto.FromString(bytes.fromhex(text[7:-1])))
    else:
        raise InvalidArgumentError(f"Unknown attribute kind {kind!r}")
    return value


def _split(text: str, separator: str) -> list[str]:
    """Split at `separator` outside brackets and quotes."""
    pieces: list[str] = []
    begun = ""
    for part in text.split(separator):
        begun += part
        if _is_closed(begun):
            pieces.append(begun)
            begun = ""
        else:
            begun += separator
    return pieces


def _is_closed(text: str) -> bool:
    if '"' in text:
        text = _QUOTED.sub("", text)
        if '"' in text:
            return False
    count = text.count
    return count("(") == count(")") and count("{") == count("}") and count("[") == count("]")


_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
