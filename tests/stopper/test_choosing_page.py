"""The Python blocks of docs/choosing.md do what the page says."""

import re
from typing import Any

import numpy as np
import pytest
from helpers.places import ROOT

BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "choosing.md").read_text(), re.M | re.S)


def test_the_average_is_nearer_than_the_last_model(capsys):
    exec(BLOCKS[0], {})
    assert capsys.readouterr().out == "True\n"


def test_statistics_are_estimated_again_at_the_clients():
    torch = pytest.importorskip("torch")
    page: dict[str, Any] = {}
    exec(BLOCKS[1], page)
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    net[1].running_mean.fill_(99.0)  # as little as an average may fit
    data = torch.from_numpy(np.random.default_rng(0).standard_normal((40, 3)).astype("f4"))
    weights = {name: tensor.clone() for name, tensor in net.named_parameters()}
    found = page["reestimate"](net, data.split(10))
    assert found.keys() == {"1.running_mean", "1.running_var"}
    with torch.no_grad():
        hidden = net[0](data)
    assert torch.allclose(found["1.running_mean"], hidden.mean(0), atol=1e-5)
    assert torch.allclose(found["1.running_var"], hidden.var(0), rtol=0.3)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in net.named_parameters())
