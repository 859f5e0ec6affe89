"""Write what the TypeScript client has from here: messages from the protocol's files, ops from their signatures.

python tools/gen_typescript.py            write clients/typescript/src/*.generated.ts
python tools/gen_typescript.py --check    exit 1 when one is out of date
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from dtfctl.protocol import graph_pb2, master_pb2, tensor_pb2
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.op_signature import Arg, Attr, OpSignature, get_signature, op_names

TARGET = Path(__file__).resolve().parent.parent / "clients" / "typescript" / "src"
_HEAD = "// Made by tools/gen_typescript.py; do not edit.\n"

# What a client needs nothing of; what a server says there is skipped when it is read.
_LEFT_OUT = frozenset(
    {
        "GraphDef.debug_info",
        "NodeDef.experimental_debug_info",
        "NodeDef.experimental_type",
        "OpDef.ArgDef.handle_data",
        "OpDef.ArgDef.experimental_full_type",
        "ConfigProto.graph_options",
        "ConfigProto.cluster_def",
        "ConfigProto.experimental",
        "ConfigProto.gpu_options",
        "ConfigProto.pluggable_device_options",
        "ConfigProto.rpc_options",
        "ConfigProto.session_inter_op_thread_pool",
        "RunOptions.debug_options",
        "RunOptions.experimental",
        "RunStepResponse.metadata",
        "DeviceAttributes.locality",
        "TensorProto.resource_handle_val",
        "TensorProto.variant_val",
    }
)
_METHODS = ("CreateSession", "ExtendSession", "PartialRunSetup", "RunStep", "CloseSession", "ListDevices", "Reset")
_KINDS = {
    FieldDescriptor.TYPE_DOUBLE: ("double", "number"),
    FieldDescriptor.TYPE_FLOAT: ("float", "number"),
    FieldDescriptor.TYPE_INT64: ("int64", "bigint"),
    FieldDescriptor.TYPE_UINT64: ("uint64", "bigint"),
    FieldDescriptor.TYPE_INT32: ("int32", "number"),
    FieldDescriptor.TYPE_UINT32: ("uint32", "number"),
    FieldDescriptor.TYPE_FIXED64: ("fixed64", "bigint"),
    FieldDescriptor.TYPE_BOOL: ("bool", "boolean"),
    FieldDescriptor.TYPE_STRING: ("string", "string"),
    FieldDescriptor.TYPE_BYTES: ("bytes", "Uint8Array"),
    FieldDescriptor.TYPE_ENUM: ("int32", "number"),
}


# Messages ---------------------------------------------------------------------------------------------------------


def messages() -> str:
    """Write the messages that the master's methods reach, and the element types."""
    found: dict[str, Descriptor] = {}

    def reach(message: Descriptor) -> None:
        if message.full_name in found:
            return
        found[message.full_name] = message
        for field in _fields(message):
            inner = _value_field(field)
            if inner.message_type is not None:
                reach(inner.message_type)

    kinds = master_pb2.DESCRIPTOR.message_types_by_name
    for method in _METHODS:
        reach(kinds[f"{method}Request"])
        reach(kinds[f"{method}Response"])
    reach(graph_pb2.DESCRIPTOR.message_types_by_name["GraphDef"])
    out = [_HEAD, 'import { message, type Message } from "./wire.js";\n']
    out += [_enum(tensor_pb2.DESCRIPTOR.enum_types_by_name["DataType"])]
    for name in sorted(found):
        out.append(_message(found[name]))
    return "\n".join(out)


def _fields(message: Descriptor) -> list[FieldDescriptor]:
    path = message.full_name.partition(".")[2]
    return [field for field in message.fields if f"{path}.{field.name}" not in _LEFT_OUT]


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _value_field(field: FieldDescriptor) -> FieldDescriptor:
    return field.message_type.fields_by_name["value"] if _is_map(field) else field


def _type_name(message: Descriptor) -> str:
    return message.full_name.partition(".")[2].replace(".", "_")


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def _message(message: Descriptor) -> str:
    name = _type_name(message)
    members, rows = [], []
    for field in _fields(message):
        inner = _value_field(field)
        if inner.message_type is not None:
            kind, typed = f"() => {_type_name(inner.message_type)}", _type_name(inner.message_type)
        else:
            kind, typed = _KINDS[inner.type]
            kind = json.dumps(kind)
        how, optional = "one", ""
        if _is_map(field):
            key = _KINDS[field.message_type.fields_by_name["key"].type]
            how, typed = f"map {key[0]}", f"Map<{key[1]}, {typed}>"
        elif field.is_repeated:
            how, typed = "many", f"{typed}[]"
        elif field.containing_oneof is not None or inner.message_type is not None:
            how, optional = "maybe", "?"
        members.append(f"  {_camel(field.name)}{optional}: {typed};")
        rows.append(f'  ["{_camel(field.name)}", {field.number}, "{how}", {kind}],')
    return (
        (
            f"export interface {name} {{\n" + "\n".join(members) + "\n}\n"
            f'export const {name}: Message<{name}> = /* @__PURE__ */ message("{name}", [\n'
            + "\n".join(rows)
            + "\n]);\n"
        )
        .replace("{\n\n}", "{}")
        .replace("[\n\n]", "[]")
    )


def _enum(enum: EnumDescriptor) -> str:
    rows = []
    for value in enum.values:
        if 0 < value.number < 100:
            rows.append(f"  {as_dtype(value.number).name}: {value.number},")
    return (
        "/** Element types by TensorFlow's names: the number that stands for each in messages. */\n"
        "export const DATA_TYPES = {\n"
        + "\n".join(rows)
        + "\n} as const;\nexport type DType = keyof typeof DATA_TYPES;\n"
    )


# Ops --------------------------------------------------------------------------------------------------------------


def ops() -> str:
    """Write a typed function for each op."""
    out = [
        _HEAD,
        'import { define, type Common, type Func, type Input, type Named, type Shape as Dims } from "./define.js";',
        'import type { Operation, Output } from "./graph.js";',
        'import type { DType } from "./messages.generated.js";',
        'import type { Tensor } from "./tensor.js";\n',
    ]
    for name in sorted(op_names()):
        if not name.startswith("_") and re.fullmatch(r"\w+", name):
            out.append(_op(get_signature(name)))
    return "\n".join(out) + "\n"


def _op(signature: OpSignature) -> str:
    members = [f"{a.name}: {'readonly Input[]' if a.is_list else 'Input'}" for a in signature.inputs]
    required = any(a.default is None and a.name not in signature.inferred_attrs for a in signature.attrs)
    for attr in signature.attrs:
        optional = "?" if attr.default is not None or attr.name in signature.inferred_attrs else ""
        members.append(f"{attr.name}{optional}: {_attr_type(attr)}")
    taken = "{ " + "; ".join(members) + " } & Common" if members else "Common"
    optional = "" if signature.inputs or required else "?"
    text = ", ".join(
        json.dumps(part)
        for part in (
            signature.name,
            " ".join(map(_arg, signature.inputs)),
            " ".join(map(_arg, signature.outputs)),
            " ".join(_attr(a, a.name in signature.typing_attrs) for a in signature.attrs),
        )
    )
    flags = ', "stateful"' if signature.is_stateful else ""
    given = f"[args{optional}: {taken}]"
    made = f"define<{given}, {_result(signature)}>({text}{flags})"
    return f"export const {signature.name} = /* @__PURE__ */ {made};"


def _arg(arg: Arg) -> str:
    if arg.type_list_attr:
        kind = f"@{arg.type_list_attr}"
    else:
        kind = arg.type_attr or f"={arg.dtype.base_dtype.name if arg.dtype else ''}"
        kind = f"{arg.number_attr}*{kind}" if arg.number_attr else kind
    return f"{arg.name}:{'&' if arg.is_ref else ''}{kind}"


def _result(signature: OpSignature) -> str:
    kinds = ["Output[]" if a.is_list else "Output" for a in signature.outputs]
    if not kinds:
        return "Operation"
    if len(kinds) == 1:
        return kinds[0]
    return "Named<{ " + "; ".join(f"{a.name}: {kind}" for a, kind in zip(signature.outputs, kinds)) + " }>"


def _attr(attr: Attr, is_typing: bool) -> str:
    """Write `name:kind`, `name:kind?` where it has a default; that is written only where types follow from it.

    `name:type~int32`: what plain numbers become where no float32 is taken and nothing else says it.
    """
    allowed = [as_dtype(one).name for one in attr.allowed] if attr.kind == "type" else []
    if attr.default is None and allowed and "float32" not in allowed:
        return f"{attr.name}:{attr.kind}~{'int32' if 'int32' in allowed else allowed[0]}"
    if attr.default is None:
        return f"{attr.name}:{attr.kind}"
    if is_typing and attr.kind == "type":
        return f"{attr.name}:{attr.kind}={as_dtype(attr.default.type).name}"
    if is_typing and attr.kind == "int":
        return f"{attr.name}:{attr.kind}={attr.default.i}"
    if is_typing and attr.default.list.type:
        raise SystemExit(f"{attr.name} has a list of types as default, which this does not write yet")
    return f"{attr.name}:{attr.kind}?"


_ATTRS = {
    "int": "number | bigint",
    "float": "number",
    "bool": "boolean",
    "string": "string | Uint8Array",
    "type": "DType",
    "shape": "Dims",
    "tensor": "Tensor",
    "func": "Func",
}


def _attr_type(attr: Attr) -> str:
    if attr.is_list:
        inner = _ATTRS[attr.kind.removeprefix("list(").rstrip(")")]
        return f"readonly ({inner})[]" if " " in inner else f"readonly {inner}[]"
    allowed = [w for w in attr.allowed if isinstance(w, str)]
    if allowed and attr.kind == "string":
        return " | ".join(json.dumps(w) for w in allowed)
    return _ATTRS[attr.kind]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for name, text in (("messages.generated.ts", messages()), ("ops.generated.ts", ops())):
        path = TARGET / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                path.write_text(text)
    if check and stale:
        print(f"out of date, run python tools/gen_typescript.py: {', '.join(stale)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
