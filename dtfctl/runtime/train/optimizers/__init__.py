"""The optimizers, a module a family."""
