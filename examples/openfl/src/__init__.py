"""A hospital's data and model."""
