"""Training in mixed precision: factors on the loss, the optimizer that applies them, and the switch of the rewrite."""
