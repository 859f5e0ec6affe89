"""What stands for modules of `tensorflow.python` that have no counterpart of the same name here."""
