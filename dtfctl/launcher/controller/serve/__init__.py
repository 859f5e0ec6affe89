"""What can be asked of the controller: its calls and its metrics page."""
