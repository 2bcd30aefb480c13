"""Somebody's client: logistic regression on the data of one hospital. It knows nothing of early stopping."""

import numpy as np
import nvflare.client as flare

STEPS, LEARNING_RATE = 5, 0.5


def load(site: str) -> tuple[np.ndarray, np.ndarray]:
    """A hospital's 200 patients, nine measurements each; hospitals differ in whom they treat."""
    number = int(site.rsplit("-", 1)[-1])
    random = np.random.default_rng(number)
    features = random.normal(0.3 * number, 1, (200, 9))
    risk = features @ np.linspace(-1, 1, 9) + random.normal(0, 0.5, 200)
    return features, (risk > 0).astype(float)


def predict(weights: np.ndarray, features: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-features @ weights))


flare.init()
features, labels = load(flare.get_site_name())
while flare.is_running():
    received = flare.receive()
    weights = np.asarray(received.params["numpy_key"], dtype=float)
    accuracy = float(((predict(weights, features) > 0.5) == labels).mean())
    for _ in range(STEPS):
        weights = weights - LEARNING_RATE * features.T @ (predict(weights, features) - labels) / len(labels)
    print(f"{flare.get_site_name()} trained in round {received.current_round}")
    flare.send(flare.FLModel(params={"numpy_key": weights}, metrics={"accuracy": accuracy}))
