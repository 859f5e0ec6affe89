"""What is wanted of the cluster and known of its jobs, in memory and on the disk."""
