"""Who holds memory: the only place that counts references, lends what others look at, and keeps what comes again."""
