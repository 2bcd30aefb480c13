"""Where the checkout and the image files are."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("FEDHALT_DATA", ROOT.parent / "shared" / "data"))
"""The folder of MedMNIST files; tests that need one are skipped without it."""
