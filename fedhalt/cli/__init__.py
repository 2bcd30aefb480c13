"""The command line, one file per command."""

from .app import main

__all__ = ["main"]
