"""What is to be done, as pure functions of the state and of what agents report."""
