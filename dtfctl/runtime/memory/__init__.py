"""Who holds memory: the only place that counts references."""
