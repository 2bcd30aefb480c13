"""Runs one job of two clients: python job.py '{"controller": "FedAvg", "rounds": 9, "folder": …}'."""

import json
import os
import sys
import time

from nvflare.apis.fl_exception import FLCommunicationError
from nvflare.app_common.aggregators.intime_accumulate_model_aggregator import InTimeAccumulateWeightedAggregator
from nvflare.app_common.np.np_model_persistor import NPModelPersistor
from nvflare.app_common.shareablegenerators.full_model_shareable_generator import FullModelShareableGenerator
from nvflare.app_common.workflows.fedavg import FedAvg
from nvflare.app_common.workflows.scaffold import Scaffold
from nvflare.app_common.workflows.scatter_and_gather import ScatterAndGather
from nvflare.fuel.flare_api.api_spec import InternalError, NoConnection
from nvflare.fuel.flare_api.flare_api import new_secure_session
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import FrameworkType, ScriptRunner

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from recorder import Recorder


def controller(job, name, rounds, start):
    if name != "ScatterAndGather":
        kind = {"FedAvg": FedAvg, "Scaffold": Scaffold}[name]
        return kind(num_clients=2, num_rounds=rounds, start_round=start, task_check_period=0.1)
    aggregator = InTimeAccumulateWeightedAggregator(expected_data_kind="WEIGHTS")
    ids = {
        "aggregator_id": job.to_server(aggregator, id="aggregator"),
        "shareable_generator_id": job.to_server(FullModelShareableGenerator(), id="shareable_generator"),
    }
    return ScatterAndGather(min_clients=2, num_rounds=rounds, start_round=start, persistor_id="persistor", **ids)


def build(controller_name, rounds, folder, start=0, model=None, stopping=None):
    job = FedJob(name="halting", min_clients=2)
    job.to_server({"task_request_interval": 0.2})
    job.to_server(NPModelPersistor(model=[0.0] * 4, source_ckpt_file_full_name=model), id="persistor")
    job.to_server(controller(job, controller_name, rounds, start))
    job.to_server(Recorder(folder), id="recorder")
    if stopping is not None:
        from fedhalt.integrations.nvflare import EarlyStopping

        job.to_server(EarlyStopping(**stopping))
    job.to_clients(ScriptRunner(script=os.path.join(HERE, "client.py"), framework=FrameworkType.RAW))
    return job


def wait_for_session(manager):
    """FLARE starts the server, sleeps three seconds and then logs in once; a busy server may not be listening yet."""
    end = time.monotonic() + 600
    while True:
        try:
            return new_secure_session(**manager.session_params)
        except (FLCommunicationError, InternalError, NoConnection):
            if time.monotonic() > end:
                raise
            time.sleep(1)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    env = given.pop("env", "sim")
    job = build(given.pop("controller"), **given)
    workspace = os.path.join(given["folder"], "workspace")
    if env == "sim":
        job.simulator_run(workspace, n_clients=2, threads=2)
    else:
        from nvflare.recipe import PocEnv
        from nvflare.recipe.session_mgr import SessionManager

        SessionManager._get_session = wait_for_session
        deployment = PocEnv(num_clients=2, extra={"login_timeout": 300})  # ten seconds are short on a busy machine
        try:
            deployment.get_job_result(deployment.deploy(job))
        finally:
            deployment.stop(clean_up=True)
