"""`tf.contrib.predictor`: a SavedModel as a function of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtfctl.runtime import api as tf

__all__ = ["Predictor", "from_saved_model"]


class Predictor:
    """A function from arrays by name to arrays by name, in a session of its own.

    Attributes:
        graph, session: what it runs in. feed_tensors, fetch_tensors: by the names of the signature.
    """

    def __init__(self, session: Any, feeds: Mapping[str, Any], fetches: Mapping[str, Any]) -> None:
        self.session, self.graph = session, session.graph
        self.feed_tensors, self.fetch_tensors = dict(feeds), dict(fetches)

    def __call__(self, input_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Compute the outputs.

        Raises:
            ValueError: an input has a name that the signature has not.
        """
        unknown = sorted(set(input_dict) - set(self.feed_tensors))
        if unknown:
            raise ValueError(f"Got unexpected keys in input_dict: {unknown}; expected: {sorted(self.feed_tensors)}")
        feeds = {self.feed_tensors[name]: value for name, value in input_dict.items()}
        return dict(self.session.run(self.fetch_tensors, feeds))

    def close(self) -> None:
        """Close the session."""
        self.session.close()


def from_saved_model(
    export_dir: str,
    signature_def_key: str | None = None,
    signature_def: Any = None,
    input_names: Mapping[str, str] | None = None,
    output_names: Mapping[str, str] | None = None,
    tags: str | None = None,
    graph: Any = None,
    config: Any = None,
) -> Predictor:
    """Load a SavedModel as a function.

    Args:
        signature_def_key: which of its signatures; "serving_default" when None.
        signature_def, input_names, output_names: in its place, a signature, or tensors' names by the inputs' and
            outputs' names.
        tags: of the graph to load, with commas between them; "serve" when None.

    Raises:
        ValueError: several of the ways to say what goes in and out were taken, or the signature is not there.
    """
    given = [signature_def_key is not None, signature_def is not None, input_names is not None]
    if sum(given) > 1 or (input_names is None) != (output_names is None):
        raise ValueError(
            "Give one of signature_def_key, signature_def, or both input_names and output_names: which say the same"
        )
    graph = graph if graph is not None else tf.Graph()
    with graph.as_default():
        session = tf.Session(graph=graph, config=config)
        wanted = (tags or tf.saved_model.tag_constants.SERVING).split(",")
        meta = tf.saved_model.loader.load(session, wanted, export_dir)
        if input_names is None or output_names is None:
            key = signature_def_key or tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
            if signature_def is None:
                if key not in meta.signature_def:
                    raise ValueError(f"Got signature_def_key {key!r}; the model has {sorted(meta.signature_def)}")
                signature_def = meta.signature_def[key]
            input_names = {name: info.name for name, info in signature_def.inputs.items()}
            output_names = {name: info.name for name, info in signature_def.outputs.items()}
        feeds = {name: graph.get_tensor_by_name(tensor) for name, tensor in input_names.items()}
        fetches = {name: graph.get_tensor_by_name(tensor) for name, tensor in output_names.items()}
    return Predictor(session, feeds, fetches)
