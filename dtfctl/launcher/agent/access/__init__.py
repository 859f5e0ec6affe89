"""What can be asked of an agent from outside: its calls, and a user's commands and files."""
