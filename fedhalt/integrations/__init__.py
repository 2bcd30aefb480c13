"""Adapters to other people's frameworks: they import the core, never the reverse."""
