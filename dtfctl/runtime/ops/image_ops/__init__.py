"""`tf.image`: a module a concept, with TF1's names and argument orders."""
