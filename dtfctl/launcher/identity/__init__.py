"""Who a process is: the certificates of a cluster, and which of them a host's processes have."""
