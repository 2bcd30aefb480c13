"""The server's half: one of fedhalt's methods, stopped by the rule."""

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from fedhalt.integrations.flower import EarlyStopping, FedMethod

from .task import federation

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config, task = context.run_config, federation(context)

    method = FedMethod(
        config["method"],
        cohort=config["cohort"] or None,
        seed=config["seed"],
        min_available_nodes=config["min-nodes"],
        fraction_evaluate=0.0,
    )
    strategy = EarlyStopping(
        method,
        threshold=config["threshold"],
        patience=config["patience"],
        state=config["state"] or None,
        trajectory=config["trajectory"] or None,
        overwrite=True,  # a second run replaces the record of the first; with a state folder, it continues it
    )

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        scores = task.evaluate(*task.vectors(arrays.to_torch_state_dict()))
        return MetricRecord({key: scores[f"test_{key}"] for key in ("loss", "accuracy")})

    result = strategy.start(
        grid,
        ArrayRecord(task.state_dict(task.theta0(), task.shared())),
        num_rounds=config["num-server-rounds"],
        evaluate_fn=evaluate if config["evaluate"] else None,
    )
    status = strategy.status
    if status is None:
        raise SystemExit("no round succeeded: see the errors of the nodes above")
    print(f"ended after round {status.round}: {status.reason or 'all rounds done'}", flush=True)
    if config["evaluate"]:
        print(f"test accuracy {result.evaluate_metrics_serverapp[status.round]['accuracy']:.3f}", flush=True)
