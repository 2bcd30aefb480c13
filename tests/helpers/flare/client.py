"""A client that moves the model a third of the way to a point of its own."""

import numpy as np
import nvflare.client as flare

flare.init()
number = int(flare.get_site_name().rsplit("-", 1)[-1])
while flare.is_running():
    received = flare.receive()
    model = np.asarray(received.params["numpy_key"])
    aim = number * np.linspace(-1, 1, model.size, dtype=np.float32).reshape(model.shape)
    trained = model + np.float32(0.3) * (aim - model)
    control = {"numpy_key": np.zeros_like(model)}  # Scaffold expects one; the others ignore it
    flare.send(
        flare.FLModel(params={"numpy_key": trained}, metrics={"loss": float(((aim - model) ** 2).mean())},
                      meta={"scaffold_c_diff": control})
    )  # fmt: skip
