"""Functions, constructors and methods take the arguments that TensorFlow's take, in that order, with those defaults."""

from __future__ import annotations

import ast
import fnmatch
import inspect
import json
from typing import Any

import dtfctl.runtime as tf
from tests.unit.names import stock_arguments
from tests.unit.names.argument_exceptions import EXCEPTIONS

STOCK: dict[str, str] = json.loads(stock_arguments.ARGUMENTS.read_text())


def ours(name: str) -> str | None:
    """Arguments of what has a name here; None where nothing callable has it."""
    found: Any = tf
    owner: Any = None
    for word in name.split("."):
        owner, found = found, getattr(found, word, None)
    if found is None or not callable(found):
        return None
    if inspect.isclass(owner):
        return stock_arguments.text_of_method(owner, name.rpartition(".")[2], lambda f: f)
    if inspect.isclass(found):
        return stock_arguments.text_of_class(found, lambda f: f)
    return stock_arguments.text(found, lambda f: f)


def parsed(text: str) -> tuple[list[str], dict[str, str | None], ast.arguments]:
    """Names that may be given by place, defaults by name and the rest."""
    written = text.replace("<lambda>", "a_lambda")
    found: ast.arguments = ast.parse(f"def f({written}): ...").body[0].args  # type: ignore[attr-defined]
    placed = [a.arg for a in found.args]
    late = [ast.unparse(d) for d in found.defaults]
    defaults: dict[str, str | None] = dict.fromkeys(placed)
    defaults.update(zip(placed[len(placed) - len(late) :], late, strict=True))
    for a, d in zip(found.kwonlyargs, found.kw_defaults, strict=True):
        defaults[a.arg] = None if d is None else ast.unparse(d)
    return placed, defaults, found


def differences(theirs: str, mine: str) -> list[str]:
    """What a call that TensorFlow takes would meet here, in words."""
    placed, defaults, all_theirs = parsed(theirs)
    our_placed, our_defaults, all_ours = parsed(mine)
    said = []
    by_place = our_placed[: len(placed)]
    if by_place != placed and not (all_ours.vararg and by_place == placed[: len(by_place)]):
        said.append(f"order: ({', '.join(placed)}), here ({', '.join(our_placed)})")
    for word, default in defaults.items():
        if word not in our_defaults:
            if not all_ours.kwarg:
                said.append(f"no {word}")
        elif default is not None and our_defaults[word] != default:
            said.append(f"{word}={default}, here {our_defaults[word] or 'needed'}")
    said += [f"{word} is needed here" for word, d in our_defaults.items() if d is None and word not in defaults]
    if all_theirs.vararg and not all_ours.vararg:
        said.append(f"no *{all_theirs.vararg.arg}")
    if all_theirs.kwarg and not all_ours.kwarg and not our_defaults.keys() - defaults.keys():
        said.append(f"no **{all_theirs.kwarg.arg}")
    return said


def test_arguments_are_those_of_tensorflow() -> None:
    found = {}
    for name, theirs in STOCK.items():
        mine = ours(name)
        said = differences(theirs, mine) if mine is not None else []
        if said and not any(fnmatch.fnmatchcase(name, pattern) for pattern in EXCEPTIONS):
            found[name] = said
    assert not found, "\n".join(f"{name}: {'; '.join(said)}" for name, said in found.items())


def test_every_exception_is_one() -> None:
    for pattern in EXCEPTIONS:
        names = fnmatch.filter(STOCK, pattern)
        assert any((mine := ours(n)) is not None and differences(STOCK[n], mine) for n in names), pattern
