"""Hypothesis without deadlines: a loaded machine is no failure."""

from hypothesis import settings

settings.register_profile("fedhalt", deadline=None)
settings.load_profile("fedhalt")
