"""A page to look at: a cluster, its jobs, graphs, timelines, links and events, live in a browser."""
