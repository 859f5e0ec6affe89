"""The first steps of a version, run before anybody waits for them: plans are made and compiled by use."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from dtfctl.protocol.serving_pb2 import PredictionLog
from dtfctl.runtime.framework.errors import OpError
from dtfctl.serve import questions
from dtfctl.serve.batching import LOST, Arrays
from dtfctl.serve.loading import LoadedModel, first_inputs
from dtfctl.serve.signatures import DEFAULT, Signature
from dtfctl.serve.sources import Source

log = logging.getLogger(__name__)

RECORDS = Path("assets.extra", "tf_serving_warmup_requests")
MOST_RECORDS = 1000
TIMES = 20
"""How often a made-up request is run: plans for shapes that come again are compiled after some steps."""


def warm_up(copy: LoadedModel, source: Source, most_rows: int) -> None:
    """Run the requests that lie beside a SavedModel; without any, its signatures on zeros where that is possible.

    What the model does not like of them is logged.

    Raises:
        OpError: the task has gone.
    """
    file = Path(source.path) / RECORDS if source.kind == "saved_model" else None
    if file is not None and file.is_file():
        requests = _recorded(file, copy)
    else:
        requests = _made_up(copy, most_rows)
    for signature, values in requests:
        try:
            signature.check(values)
            copy.run(signature, tuple(port.alias for port in signature.outputs), values)
        except LOST:
            raise
        except (OpError, ValueError, TypeError) as error:
            log.warning("version %d: a request to warm up with fails: %s", source.version, error)


def _made_up(copy: LoadedModel, most_rows: int) -> Iterator[tuple[Signature, Arrays]]:
    for signature in copy.signatures.values():
        for rows in (1, most_rows) if signature.batches and most_rows > 1 else (1,):
            values = first_inputs(signature, rows)
            if values is not None:
                for _ in range(TIMES if rows == 1 else 2):
                    yield signature, values


def _recorded(file: Path, copy: LoadedModel) -> Iterator[tuple[Signature, Arrays]]:
    for number, record in enumerate(questions.records(file)):
        if number >= MOST_RECORDS:
            log.warning("%s: only its first %d requests are run", file, MOST_RECORDS)
            return
        entry = PredictionLog.FromString(record)
        kind = entry.WhichOneof("log_type")
        if kind is None:
            log.warning("%s: request %d is none that can be run here", file, number + 1)
            continue
        request = getattr(entry, kind).request
        signature = copy.signatures.get(request.model_spec.signature_name or DEFAULT)
        if signature is None:
            log.warning("%s: request %d asks for no signature of the model", file, number + 1)
            continue
        if kind == "predict_log":
            yield signature, questions.tensors(request.inputs)
        else:
            yield signature, questions.examples(signature, request.input)
