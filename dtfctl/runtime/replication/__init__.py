"""Which replica of a program is meant: contexts that threads are in, and values of several replicas in one."""
