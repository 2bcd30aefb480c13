"""Somebody's FLARE job: FedAvg over two hospitals, and one line of fedhalt's."""

import argparse

from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.recipe import PocEnv, SimEnv

from fedhalt.integrations.nvflare import add_early_stopping

parser = argparse.ArgumentParser()
parser.add_argument(
    "--env", choices=["sim", "poc"], default="sim", help="the simulator, or real processes on this machine"
)
env = {"sim": SimEnv, "poc": PocEnv}[parser.parse_args().env](num_clients=2)

recipe = NumpyFedAvgRecipe(name="halting", model=[0.0] * 9, min_clients=2, num_rounds=100, train_script="client.py")
add_early_stopping(recipe, threshold=0.05, patience=3, trajectory="trajectory.jsonl")  # the one added line
run = recipe.execute(env)
print("the job's folder:", run.get_result())
