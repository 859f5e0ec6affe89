"""Strategies: one program for one device, for several, and for several tasks."""
