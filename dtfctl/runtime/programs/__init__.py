"""Programs written for TensorFlow: run with their own import lines, and looked through before they run."""
