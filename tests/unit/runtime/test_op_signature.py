"""Op signatures: the notation, and that it loses nothing on the way to an OpDef and back."""

import pytest

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError
from dtfctl.runtime.framework.op_signature import OpSignature, get_signature, op_names, parse_signature


def test_every_signature_survives_a_round_trip_through_its_proto() -> None:
    names = op_names()
    assert len(names) > 1000
    for name in names:
        signature = get_signature(name)
        assert OpSignature.from_proto(signature.to_proto()) == signature


def test_notation_gives_arguments_attributes_and_flags() -> None:
    s = parse_signature(
        "Foo(a: T, b: N * float, c: list(Ts)) -> (y: ref(T)); T: type in {float, int32}; N: int >= 2; "
        'Ts: list(type) = [float]; mode: string in {"a", "b"} = "b"; !stateful'
    )
    assert [a.name for a in s.inputs] == ["a", "b", "c"]
    assert s.inputs[1].number_attr == "N" and s.inputs[1].dtype is dtypes.float32
    assert s.inputs[2].type_list_attr == "Ts" and s.outputs[0].is_ref
    assert s.attr_by_name["mode"].allowed == ("a", "b") and s.attr_by_name["N"].minimum == 2
    assert s.is_stateful and s.inferred_attrs == {"T", "N", "Ts"}


def test_unknown_op_names_the_nearest() -> None:
    with pytest.raises(NotFoundError, match=r"Op type not registered 'MatMull'.*Did you mean 'MatMul'"):
        get_signature("MatMull")


@pytest.mark.parametrize(
    ("flag", "in_float16", "in_bfloat16"),
    [
        ("!stateful", None, None),
        ("!precision(allow)", "allow", "allow"),
        ("!stateful precision(float16: deny, bfloat16: infer)", "deny", "infer"),
        ("!precision(bfloat16: clear)", None, "clear"),
    ],
)
def test_notation_says_what_less_precision_does(flag: str, in_float16: str | None, in_bfloat16: str | None) -> None:
    signature = parse_signature(f"Foo(x: T) -> (y: T); T: type; {flag}")
    assert (signature.in_float16, signature.in_bfloat16) == (in_float16, in_bfloat16)
    assert signature.is_stateful == ("stateful" in flag)


@pytest.mark.parametrize(
    "text",
    [
        "Foo",
        "Foo(a) -> ()",
        "Foo() -> (); x",
        "Foo() -> (); !shiny",
        "Foo() -> (); !shiny(allow)",
        "Foo() -> (); !precision(gains)",
        "Foo() -> (); !precision(float64: allow)",
    ],
)
def test_malformed_notation_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_signature(text)
