"""Training with lightning, ended by the distance from the start: a small network on scikit-learn's digits."""

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from fedhalt.integrations.lightning import EarlyStopping


class Digits(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))

    def training_step(self, batch, index):
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


seed_everything(0)
images, labels = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
stopping = EarlyStopping(threshold=0.03, patience=3, average=5, load_average=True)
trainer = Trainer(
    max_epochs=200, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    callbacks=[stopping],  # the line
)  # fmt: skip
model = Digits()
trainer.fit(model, DataLoader(data, batch_size=64, shuffle=True))

print(stopping.watch.told)
right = (model.net(data.tensors[0]).argmax(1) == data.tensors[1]).float().mean()
print(f"training accuracy of the averaged model, which is in place: {right:.3f}")
