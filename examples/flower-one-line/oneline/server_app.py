"""Somebody's ServerApp: Flower's FedAdam, and one line of fedhalt's."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAdam

from fedhalt.integrations.flower import EarlyStopping

from .task import Net

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    strategy = FedAdam(eta=0.01, min_available_nodes=config["min-nodes"])
    strategy = EarlyStopping(strategy, threshold=0.05, patience=5)  # the one added line
    strategy.start(grid, ArrayRecord(Net(context).state_dict()), num_rounds=config["num-server-rounds"])
