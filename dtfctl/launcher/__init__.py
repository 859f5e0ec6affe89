"""From a spec to a healthy cluster: specs, controller, agents, jobs."""
