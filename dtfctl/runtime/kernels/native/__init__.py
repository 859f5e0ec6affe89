"""Regions of a plan as machine code, made by llvmlite for the shapes of a step."""
