"""A Flower app whose runs end by themselves."""
