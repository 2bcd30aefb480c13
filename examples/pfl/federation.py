"""A simulated federation of pfl that stops by itself: softmax regression on scikit-learn's digits, 20 users, FedAvg."""

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from sklearn.datasets import load_digits

from fedhalt.integrations.pfl import EarlyStopping


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)

    def loss(self, images, labels, eval=False):
        return torch.nn.functional.cross_entropy(self.layer(images), labels.long())

    @torch.no_grad()
    def metrics(self, images, labels):
        right = (self.layer(images).argmax(1) == labels).sum().item()
        return {"accuracy": Weighted(right, len(labels))}


np.random.seed(0)
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
parts = np.array_split(np.argsort(labels + np.random.rand(len(labels)) * 3), 20)  # a few classes each
users = {
    user: Dataset([(images[part] / 16).astype("f4"), labels[part].astype("f4")]) for user, part in enumerate(parts)
}

net = Net()
model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
stopping = EarlyStopping(threshold=0.03, patience=5, average=10)
FederatedAveraging().run(
    NNAlgorithmParams(central_num_iterations=200, evaluation_frequency=10, train_cohort_size=5, val_cohort_size=0),
    SimulatedBackend(FederatedDataset(users.__getitem__, get_user_sampler("random", list(users))), val_data=None),
    model,
    NNTrainHyperParams(local_learning_rate=0.1, local_num_epochs=1, local_batch_size=10),
    callbacks=[stopping],  # the line
    send_metrics_to_platform=False,
)

print(stopping.watch.told)
model.set_parameters(stopping.averaged_parameters())
right = net.layer(torch.tensor(images / 16).float()).argmax(1).numpy() == labels
print(f"accuracy of the averaged model on all users: {right.mean():.3f}")
