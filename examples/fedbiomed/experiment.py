"""Somebody's Fed-BioMed experiment: logistic regression over two hospitals, and one line of fedhalt's."""

import time

import torch
from fedbiomed.common.datamanager import DataManager
from fedbiomed.common.dataset import TabularDataset
from fedbiomed.common.training_plans import TorchTrainingPlan
from fedbiomed.researcher.aggregators import FedAverage
from fedbiomed.researcher.federated_workflows import Experiment

from fedhalt.integrations.fedbiomed import run_until


class Regression(TorchTrainingPlan):
    def init_model(self, model_args):
        model = torch.nn.Linear(9, 1)
        torch.nn.init.zeros_(model.weight)
        torch.nn.init.zeros_(model.bias)
        return model

    def init_optimizer(self, optimizer_args):
        return torch.optim.SGD(self.model().parameters(), lr=optimizer_args["lr"])

    def init_dependencies(self):
        return ["import torch", "from fedbiomed.common.dataset import TabularDataset"]

    def training_data(self):
        dataset = TabularDataset(input_columns=[f"x{i}" for i in range(9)], target_columns=["sick"])
        return DataManager(dataset=dataset, shuffle=False)

    def training_step(self, data, target):
        risk = self.model().forward(data.float())
        return torch.nn.functional.binary_cross_entropy_with_logits(risk, target.float().reshape(risk.shape))


def wait_for_hospitals(experiment: Experiment, number: int = 2) -> None:
    while len(experiment.requests.ping_nodes()) < number:
        time.sleep(2)


def make_experiment(rounds: int = 100) -> Experiment:
    arguments = {"loader_args": {"batch_size": 200}, "optimizer_args": {"lr": 1.0}, "epochs": 1}
    experiment = Experiment(
        tags=["patients"],
        training_plan_class=Regression,
        model_args={},
        training_args=arguments,
        round_limit=rounds,
        aggregator=FedAverage(),
        save_breakpoints=True,
    )
    wait_for_hospitals(experiment)
    experiment.set_training_data(None, from_tags=True)
    return experiment


if __name__ == "__main__":
    experiment = make_experiment()
    watch = run_until(experiment, threshold=0.05, patience=3)  # the one changed line; it was experiment.run()
    print(watch.told)
    experiment.training_plan().export_model("model.pt")
