"""The processes of a host: what is wanted of each, what it is, and what happens to it next."""
