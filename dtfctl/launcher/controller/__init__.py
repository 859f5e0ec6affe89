"""The controller: one a cluster; owns the desired state and closes the gap to what agents report."""
