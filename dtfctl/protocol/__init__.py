"""Wire messages between the processes, generated from the .proto files here by tools/gen_protos.py."""
