"""Names that several namespaces have: a module a set of namespaces, which take all of it."""
