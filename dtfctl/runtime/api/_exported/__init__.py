"""Names of `tf` that entries of ops export: a module a namespace."""

# Made by tools/gen_api_exports.py from the `exports` of the entries; do not edit.
