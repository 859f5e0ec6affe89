"""What runs at the user's end."""
