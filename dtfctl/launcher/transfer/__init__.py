"""Files on their way between machines: trees in parts, archives, blobs known by their content."""
