"""Somebody's data and model: logistic regression on the patients of a hospital, without a word of early stopping."""

import numpy as np
import torch
from openfl.federated import PyTorchDataLoader, PyTorchTaskRunner
from openfl.utilities import Metric
from torch.nn.functional import binary_cross_entropy_with_logits


class Patients(PyTorchDataLoader):
    """200 patients, nine measurements each; hospitals differ in whom they treat."""

    def __init__(self, data_path=None, batch_size=200, **kwargs):
        super().__init__(batch_size, **kwargs)
        if data_path is None:  # only the model is wanted
            return
        np.random.seed(int(data_path))  # OpenFL shuffles the batches with it
        random = np.random.default_rng(int(data_path))
        features = random.normal(0.3 * int(data_path), 1, (200, 9)).astype(np.float32)
        risk = features @ np.linspace(-1, 1, 9) + random.normal(0, 0.5, 200)
        self.X_train = self.X_valid = features
        self.y_train = self.y_valid = (risk > 0).astype(np.float32)

    def get_feature_shape(self):
        return [9]


class Regression(PyTorchTaskRunner):
    def __init__(self, device="cpu", **kwargs):
        super().__init__(device=device, **kwargs)
        torch.set_num_threads(1)
        self.linear = torch.nn.Linear(9, 1)
        torch.nn.init.zeros_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=1.0)

    def forward(self, x):
        return self.linear(x).squeeze(1)

    def train_(self, train_dataloader):
        for features, labels in train_dataloader:
            self.optimizer.zero_grad()
            loss = binary_cross_entropy_with_logits(self(torch.tensor(features)), torch.tensor(labels))
            loss.backward()
            self.optimizer.step()
        return Metric(name="loss", value=np.array(loss.item()))

    def validate_(self, validation_dataloader):
        with torch.no_grad():
            right = [((self(torch.tensor(x)) > 0) == torch.tensor(y)).float() for x, y in validation_dataloader]
        return Metric(name="accuracy", value=np.array(torch.cat(right).mean().item()))
