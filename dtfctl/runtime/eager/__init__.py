"""Eager execution: ops run when they are called. Importing this package changes nothing; enabling it does."""
