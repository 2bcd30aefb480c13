"""The data of one hospital, and their description for `dataset add --file`: python hospital.py FOLDER NUMBER."""

import json
import sys
from pathlib import Path

import numpy as np

folder, number = Path(sys.argv[1]).absolute(), int(sys.argv[2])
random = np.random.default_rng(number)
features = random.normal(0.3 * number, 1, (200, 9))
sick = features @ np.linspace(-1, 1, 9) + random.normal(0, 0.5, 200) > 0
header = ",".join([*(f"x{i}" for i in range(9)), "sick"])
np.savetxt(folder / "patients.csv", np.column_stack([features, sick]), "%.6f", ",", header=header, comments="")
described = {"name": "patients", "data_type": "csv", "tags": "patients", "description": "nine measurements each"}
(folder / "patients.json").write_text(json.dumps({**described, "path": str(folder / "patients.csv")}))
