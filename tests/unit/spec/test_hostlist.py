"""Hostlist notation."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from dtfctl.launcher.spec.hostlist import HostlistError, expand, fold


def names(text: str) -> list[str]:
    return [host.name for host in expand(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node1", ["node1"]),
        ("node[1-3]", ["node1", "node2", "node3"]),
        ("g[08-10]", ["g08", "g09", "g10"]),
        ("r[1-2]g[01-02].dc1", ["r1g01.dc1", "r1g02.dc1", "r2g01.dc1", "r2g02.dc1"]),
        ("n[1,3,7-8]", ["n1", "n3", "n7", "n8"]),
        ("n[1-9/4]", ["n1", "n5", "n9"]),
        ("a, b ,c[1-2]", ["a", "b", "c1", "c2"]),
        ("n[1-4],!n2", ["n1", "n3", "n4"]),
        ("n[1-6],!n[2-3],!n5", ["n1", "n4", "n6"]),
        ("10.0.0.1,::1", ["10.0.0.1", "::1"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
    ],
)
def test_names_are_expanded_in_order(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_users_and_bracket_values_are_kept() -> None:
    first, second = expand("alice@r[1-2]x,bob@h")[0], expand("alice@r[1-2]x,bob@h")[2]
    assert (first.user, first.name, first.brackets) == ("alice", "r1x", ("1",))
    assert (second.user, second.name, second.brackets) == ("bob", "h", ())


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("g[01-100]", "mixes numbers with and without leading zeros", 2),
        ("g[1-04]", "mixes", 2),
        ("g[08,9]", "mixes", 2),
        ("n[4-1]", "runs backwards", 2),
        ("n[1-2", "never closed", 1),
        ("n1]", "without `[`", 2),
        ("n[[1]]", "bracket inside", 2),
        ("a,,b", "empty host name", 2),
        ("", "empty host name", 0),
        ("n[a-c]", "not a number or a range", 2),
        ("n[]", "not a number or a range", 2),
        ("n[1-9/0]", "step of 0", 2),
        ("n[1-2],n2", "listed twice", 7),
        ("n1,!n7", "which is not listed before it", 3),
        ("n1,!n1", "no host is left", 0),
        ("n[1-999999]", "longer than", 2),
        ("n[1-9999]m[1-9999]", "at most", 0),
        ("bad host", "not a host name", 0),
        ("-oProxyCommand=evil", "not a host name", 0),
        ("a b@host", "not a user name", 0),
    ],
)
def test_what_is_unclear_is_refused_with_its_place(text: str, message: str, offset: int) -> None:
    with pytest.raises(HostlistError, match="^.*" + message.replace("[", r"\[")) as caught:
        expand(text)
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("hosts", "folded"),
    [
        (["gpu017", "gpu042"], "gpu[017,042]"),
        (["n1", "n2", "n3", "n10"], "n[1-3,10]"),
        (["r1g1", "r1g2", "r2g1", "r2g2"], "r[1-2]g[1-2]"),
        (["a", "b"], "a,b"),
        (["n1"], "n1"),
        (["a01", "a1"], "a01,a1"),
    ],
)
def test_fold_groups_what_is_alike(hosts: list[str], folded: str) -> None:
    assert fold(hosts) == folded


@pytest.mark.slow
@given(st.lists(st.from_regex(r"[a-c]{1,2}[0-9]{1,3}([a-b][0-9]{1,2})?", fullmatch=True), min_size=1, unique=True))
def test_fold_and_expand_give_the_same_hosts(hosts: list[str]) -> None:
    assert set(names(fold(hosts))) == set(hosts)


@given(st.text(alphabet="ab[]0123456789-,!/@. {}", max_size=40))
def test_any_text_is_hosts_or_a_hostlist_error_inside_the_text(text: str) -> None:
    try:
        hosts = expand(text)
    except HostlistError as error:
        assert 0 <= error.offset <= max(0, len(text))
    else:
        assert len({host.name for host in hosts}) == len(hosts) > 0
