"""A component of the server that keeps every global model and counts what is sent."""

import os

import numpy as np
from nvflare.apis.fl_component import FLComponent
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType


class Recorder(FLComponent):
    def __init__(self, folder: str):
        super().__init__()
        self.folder = folder

    def handle_event(self, event_type, fl_ctx):
        if event_type == AppEventType.BEFORE_TRAIN_TASK:
            with open(os.path.join(self.folder, "sent"), "a") as file:
                file.write("sent\n")
        elif event_type == AppEventType.AFTER_SHAREABLE_TO_LEARNABLE:
            r = int(fl_ctx.get_prop(AppConstants.CURRENT_ROUND)) + 1
            model = fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)["weights"]["numpy_key"]
            np.save(os.path.join(self.folder, f"{r}.npy"), model)
