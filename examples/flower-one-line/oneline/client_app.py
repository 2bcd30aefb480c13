"""Somebody's ClientApp: it knows nothing of early stopping."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch.nn.functional import cross_entropy

from .task import Net, load

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    config, (images, labels) = context.run_config, load(context)
    net = Net(context)
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(net.parameters(), lr=config["lr"], momentum=0.9)
    for _ in range(config["epochs"]):
        for batch in torch.randperm(len(labels)).split(config["batch"]):
            optimizer.zero_grad()
            loss = cross_entropy(net(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
    metrics = MetricRecord({"num-examples": len(labels), "train_loss": loss.item()})
    return Message(RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    images, labels = load(context)
    net = Net(context)
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    with torch.no_grad():
        logits = net(images)
    accuracy = float((logits.argmax(1) == labels).float().mean())
    metrics = {"num-examples": len(labels), "loss": float(cross_entropy(logits, labels)), "accuracy": accuracy}
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)
