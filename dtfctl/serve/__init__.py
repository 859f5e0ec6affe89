"""Models served to clients, with TensorFlow Serving's REST and gRPC APIs, by tasks of a cluster."""
