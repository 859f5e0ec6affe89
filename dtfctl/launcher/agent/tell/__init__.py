"""What the agent tells its tasks and its controller."""
