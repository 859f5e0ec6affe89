"""Models cut into stages on several devices, through which micro-batches go one behind the other."""
