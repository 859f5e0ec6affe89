"""`tf.test`: a TestCase with sessions and assertions about arrays, and numeric gradients."""
