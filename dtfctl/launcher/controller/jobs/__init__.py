"""Jobs: queued, started, followed, ended; their files and checkpoint folders."""
