"""Convolutions and pooling by oneDNN, where its library is installed."""
