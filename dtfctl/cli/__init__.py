"""The command line: parsing and rendering. Every verb is one call of `dtfctl.launcher.api`."""
