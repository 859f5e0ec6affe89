"""`tf.sparse` and `tf.sets`: a module a concept, with TF1's names and argument orders."""
