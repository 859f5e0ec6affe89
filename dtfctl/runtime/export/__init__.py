"""SavedModels: a folder with graphs, their signatures, their variables and files, as TensorFlow serves and loads it."""
