"""`tf.make_template`: a function whose variables are made at its first call and used again at the later ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework.graph_keys import GraphKeys, get_collection, get_collection_ref
from dtfctl.runtime.ops.variable_scope import VariableScope, variable_scope


class Template:
    """What `make_template` gives: call it as the function."""

    def __init__(self, name: str, func: Callable[..., Any], unique_name: str | None, custom_getter: Any) -> None:
        if name is None:
            raise ValueError("name cannot be None.")
        self.name, self.func = name, func
        self._unique_name, self._custom_getter = unique_name, custom_getter
        self._scope: VariableScope | None = None
        self._called = False

    def _open(self) -> Any:
        return variable_scope(self._unique_name, self.name, custom_getter=self._custom_getter)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function in the template's scope.

        Raises:
            ValueError: a later call makes a trainable variable.
        """
        if self._scope is None:
            with self._open() as scope:
                self._scope = scope
                result = self.func(*args, **kwargs)
                self._called = True
                return result
        with variable_scope(self._scope, reuse=True if self._called else None):
            if not self._called:
                result = self.func(*args, **kwargs)
                self._called = True
                return result
            before = len(get_collection_ref(GraphKeys.TRAINABLE_VARIABLES))
            result = self.func(*args, **kwargs)
            made = get_collection_ref(GraphKeys.TRAINABLE_VARIABLES)[before:]
            if made:
                raise ValueError(
                    "Trainable variable created when calling a template after the first time, perhaps you used "
                    f"tf.Variable when you meant tf.get_variable: {made}"
                )
            return result

    @property
    def variable_scope(self) -> VariableScope | None:
        """The scope of the variables; None before the first call."""
        return self._scope

    var_scope = variable_scope

    def _in_scope(self, key: str) -> list[Any]:
        return get_collection(key, f"{self._scope.name}/") if self._scope is not None else []

    @property
    def global_variables(self) -> list[Any]:
        return self._in_scope(GraphKeys.GLOBAL_VARIABLES)

    @property
    def local_variables(self) -> list[Any]:
        return self._in_scope(GraphKeys.LOCAL_VARIABLES)

    @property
    def variables(self) -> list[Any]:
        return self.global_variables + self.local_variables

    @property
    def trainable_variables(self) -> list[Any]:
        return self._in_scope(GraphKeys.TRAINABLE_VARIABLES)


def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Any = None,
    **kwargs: Any,
) -> Template:
    """Wrap a function so that it makes its variables (with `tf.get_variable`) once and shares them among its calls.

    Args:
        name_: of its variable scope, made unique.
        create_scope_now_: choose the scope's name now, not at the first call.
        unique_name_: the scope's exact name.
        custom_getter_: for the variables.
        kwargs: arguments that every call passes on.

    Raises:
        ValueError: the name is None.
    """
    function = functools.partial(func_, **kwargs) if kwargs else func_
    template = Template(name_, function, unique_name_, custom_getter_)
    if create_scope_now_:
        with template._open() as scope:
            template._scope = scope
    return template
