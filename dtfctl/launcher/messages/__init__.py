"""What controller, agents and the user's end tell each other, as values, and how it is coded."""
