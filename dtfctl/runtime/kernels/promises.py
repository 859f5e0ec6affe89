"""What kernels promise of memory, shapes and values, besides computing their op.

A kernel's registration says it (`register_kernel(..., promises=...)`), and nothing else does: whoever plans, optimises
or shares memory asks the registration, and where nothing is promised takes the way that needs no promise. One that is
not kept is a memory fault, or a wrong value, far from the kernel: tests/unit/kernels/test_promises.py runs every kernel
that makes one.

Promises speak of tensors of numbers in a CPU's memory. Strings, handles and variants may be kept and passed on: nobody
writes into those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dtfctl.runtime.framework.node_graph import Node


@dataclass(frozen=True)
class ShapeFrom:
    """What the shapes and types of a kernel's results follow from, besides its attributes and its inputs' shapes.

    Attributes:
        values: arguments whose values count too.
        is_first: the only result has the shape of the first input.
    """

    values: tuple[str, ...] = ()
    is_first: bool = False


SHAPES = ShapeFrom()
FIRST = ShapeFrom(is_first=True)


@dataclass(frozen=True)
class Promises:
    """What a kernel promises.

    Attributes:
        lets_go: once it has returned, the kernel has no reference to any input, and no result is an input or shares
            memory with one; and what it gives follows from what is in its inputs, never from which arrays they are. So
            their memory may be written again at once. A function of the node where that depends on the node.
        shape_from: see `ShapeFrom`; None promises nothing.
        of_shapes: the results follow from the shapes of the inputs; nothing else is read of them.
        is_total: where it does not refuse the shapes of its inputs, nor the values that `shape_from` names, it refuses
            no values. So it need not be run where only the shape of its result is wanted.
        is_view: the only result is the first input in another shape: the same elements in the same order, in the same
            memory where that is contiguous.
        passes: the results are the inputs, the very same objects in their order; nothing is looked at.
        checks: its only input is its result, after a look at it that may refuse it: to fail is what the op is for.
        looks_up: the result is made of slices of the first input, which the second one numbers, and nothing is changed.
            So it may be done at any time at which the table is the same, and by who waits for the numbers.
        updates_rows: it changes the slices of the variable in the first input that another input numbers, and leaves
            the rest as and where it is if nobody else holds the value. So beside a reader it costs a whole copy.
        undoes_itself: done to its own result it gives its only input again, whatever bits that has.
        neutral: for each of two operands the number that, alone and without dimensions, makes the result the other one,
            bit by bit but for what is not a number; None where none does. Not so for complex numbers.
        leaves_state: nobody can tell afterwards whether it was run, though the op is stateful: it changes nothing but
            random numbers of its own.
        gives_iterator: the result is the handle of an iterator, the same one whenever it is asked for.
        takes_next: the results are the next element of the iterator whose handle is the only input.
        changes_list: the first result is the tensor list in the first input after one change, and where that is a list
            which a loop has alone (`control/own_list.py`), it is that very list, changed.
        reads_outside: the results are no function of attributes and inputs, though TensorFlow does not mark the op as
            stateful. (To say so is no promise: who does not say it promises the opposite.)
    """

    lets_go: bool | Callable[[Node], bool] = False
    shape_from: ShapeFrom | None = None
    of_shapes: bool = False
    is_total: bool = False
    is_view: bool = False
    passes: bool = False
    checks: bool = False
    looks_up: bool = False
    updates_rows: bool = False
    undoes_itself: bool = False
    neutral: tuple[float | None, ...] = ()
    leaves_state: bool = False
    gives_iterator: bool = False
    takes_next: bool = False
    changes_list: bool = False
    reads_outside: bool = False

    def lets_go_at(self, node: Node) -> bool:
        """Tell whether the node's kernel lets go of its inputs."""
        return self.lets_go if isinstance(self.lets_go, bool) else self.lets_go(node)


NONE = Promises()
LETS_GO = Promises(lets_go=True)
LIKE_FIRST = Promises(lets_go=True, shape_from=FIRST)
OF_SHAPES = Promises(lets_go=True, shape_from=SHAPES)
PASSES = Promises(passes=True)
LEAVES_STATE = Promises(leaves_state=True)
GIVES_ITERATOR = Promises(gives_iterator=True)
TAKES_NEXT = Promises(takes_next=True)
CHANGES_LIST = Promises(changes_list=True)
UPDATES_ROWS = Promises(lets_go=True, updates_rows=True)
