"""A plain torch loop that stops by itself, without validation data: a small network on scikit-learn's digits."""

import torch
from sklearn.datasets import load_digits

from fedhalt.integrations.torch import EarlyStopping

torch.manual_seed(0)
images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
stopping = EarlyStopping(model, threshold=0.02, patience=3, average=5)  # the line

for _ in range(200):
    for batch in torch.randperm(len(labels)).split(64):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[batch].float() / 16), labels[batch]).backward()
        optimizer.step()
    if stopping.step():  # and the question
        break

print(stopping.watch.told)
for name, each in {"last": model, "average": stopping.averaged_model()}.items():
    right = (each(images.float() / 16).argmax(1) == labels).float().mean()
    print(f"training accuracy of the {name} model: {right:.3f}")
