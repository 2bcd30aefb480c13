"""Training with keras, ended by the distance from the start: a small network on scikit-learn's digits.

It runs on every backend: KERAS_BACKEND=torch, jax or tensorflow, whichever is installed.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from sklearn.datasets import load_digits

from fedhalt.integrations.keras import EarlyStopping

keras.utils.set_random_seed(0)
images, labels = load_digits(return_X_y=True)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(10)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])

stopping = EarlyStopping(threshold=0.03, patience=3, average=5)
model.fit(images / 16, labels, batch_size=64, epochs=200, verbose=0, callbacks=[stopping])  # the line

print(stopping.watch.told)
model.set_weights(stopping.averaged_weights())
print(f"training accuracy of the averaged model: {model.evaluate(images / 16, labels, verbose=0)[1]:.3f}")
