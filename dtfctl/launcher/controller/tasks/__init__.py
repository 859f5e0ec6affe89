"""Tasks: which there shall be and where, and what moves or changes."""
