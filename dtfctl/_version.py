"""The package's version, read by the build and by `dtfctl version`."""

VERSION = "0.1.0"
