"""One dataset dealt out to several consumers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from dtfctl.runtime.client.session import Session
from dtfctl.runtime.data import Dataset
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError, OutOfRangeError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.ops.array_ops import placeholder


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with Graph().as_default():
        yield


class Dealt:
    """The ops of an iterator over `dataset` for two devices."""

    def __init__(self, dataset: Dataset, size: int) -> None:
        attrs: dict[str, Any] = {"output_types": [dtypes.int64], "output_shapes": [[]]}
        resource = apply_op("MultiDeviceIterator", devices=["/cpu:0", "/cpu:0"], shared_name="", container="", **attrs)
        self.init = apply_op(
            "MultiDeviceIteratorInit",
            dataset=dataset.variant,
            multi_device_iterator=resource,
            max_buffer_size=size,
        )
        self.incarnation = placeholder(dtypes.int64, [])
        text = apply_op("MultiDeviceIteratorToStringHandle", multi_device_iterator=resource)
        again = apply_op("MultiDeviceIteratorFromStringHandle", string_handle=text, **attrs)
        self.shards = [
            apply_op_outputs(
                "MultiDeviceIteratorGetNextFromShard",
                multi_device_iterator=again,
                shard_num=shard,
                incarnation_id=self.incarnation,
                **attrs,
            )[0]
            for shard in range(2)
        ]

    def take(self, session: Session, shard: int, incarnation: int) -> int:
        return int(session.run(self.shards[shard], {self.incarnation: incarnation}))


@pytest.mark.parametrize("size", [0, 1, 10])
def test_shards_take_turns_whoever_asks_first(size: int) -> None:
    dealt = Dealt(Dataset.range(5), size)
    with Session() as session:
        now = session.run(dealt.init)
        second: list[int] = []
        thread = threading.Thread(target=lambda: second.extend(dealt.take(session, 1, now) for _ in range(2)))
        thread.start()
        assert [dealt.take(session, 0, now) for _ in range(3)] == [0, 2, 4]
        thread.join()
        assert second == [1, 3]
        # The end is found by the shard whose turn it is.
        for shard in (1, 0):
            with pytest.raises(OutOfRangeError, match="End of sequence"):
                dealt.take(session, shard, now)


def test_a_new_pass_ends_the_old_one() -> None:
    dealt = Dealt(Dataset.range(4), 1)
    with Session() as session:
        first = session.run(dealt.init)
        assert dealt.take(session, 0, first) == 0
        second = session.run(dealt.init)
        assert (first, second) == (1, 2)
        with pytest.raises(InvalidArgumentError, match=r"Invalid incarnation id\. Provided: 1; Expected: 2"):
            dealt.take(session, 0, first)
        assert [dealt.take(session, 1, second), dealt.take(session, 0, second)] == [1, 0]
