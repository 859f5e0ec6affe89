"""Names that `tf` and `tf.summary` have."""

from dtfctl.protocol.summary_pb2 import Event, SessionLog, Summary
