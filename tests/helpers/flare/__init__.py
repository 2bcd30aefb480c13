"""A FLARE federation whose model slows down, as a process of its own."""
