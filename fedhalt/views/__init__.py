"""What a person sees: words, tables, pictures, pages."""

from .page import report

__all__ = ["report"]
