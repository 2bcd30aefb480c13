"""One file per signal, each with its rule."""
