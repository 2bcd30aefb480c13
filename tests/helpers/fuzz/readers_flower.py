"""The readers of what Flower brings: state folders, a client's memory, and messages. Each imports its own."""

import logging
import math
import random
import warnings

import numpy as np

from .mutators import forge_seal
from .reader import Reader, tree_of

NUMBERS = [0, 1, -1, 7, 2**31, 2**63, -(2**70), 10**15, 0.5, 1.0, -0.0, 1e300, math.nan, math.inf, -math.inf]
TYPES = ["<f4", ">f4", "<f8", "<f2", "<i4", "u1", "?", "<c8", "<U3", "S2", "M8[s]", "float32", "object", "nonsense", ""]
SHAPES = [(6,), (), (1,), (0,), (5,), (7,), (6, 1), (1, 6), (2, 3), (6, 6), (10**12,), (-1,)]
FORMS = {"dx": ((6,), "<f4"), "dc": ((6,), "<f4"), "a": ((), "<f4"), "buffers": ((2,), "<f4")}


def rule():
    from fedhalt import ForwardGrowth

    return ForwardGrowth(1e-9, 3)


def states(place):
    """The state folder of a run that was ended after round 3."""
    from flwr.serverapp.strategy import FedAdam
    from grid import InProcessGrid, pulling_app, start_arrays

    from fedhalt.integrations.flower import EarlyStopping

    logging.getLogger("flwr").setLevel(logging.ERROR)
    random.seed(0)
    strategy = EarlyStopping(FedAdam(eta=0.05), rule=rule(), state=place)
    strategy.start(InProcessGrid(pulling_app(), 3), start_arrays(counter=False), 3)
    return [tree_of(place)]


def opened(folder):
    """Everything that a run goes on with, as digests; FedhaltError if the folder is refused."""
    from flwr.serverapp.strategy import FedAdam

    from fedhalt.integrations.flower import EarlyStopping
    from fedhalt.integrations.flower.encoding import fingerprint

    stopping = EarlyStopping(FedAdam(eta=0.05), rule=rule(), state=folder)
    flower = stopping.run
    flower.begin_run()
    try:
        if flower.stopper is None:
            return None  # nothing was saved here
        meter = flower.stopper._meter
        found = {
            "model": flower.last,
            "metrics": {kind: dict(by_round) for kind, by_round in flower.history.items()},
            "floating": sorted(flower._floating),
            "strategy": {k: v for k, v in vars(stopping.strategy).items() if isinstance(v, (dict, float, int))},
            "start": dict(sorted(meter.start.items())),
            "previous": dict(sorted(meter.previous.items())),
            "status": list(flower.status),
            "stepper": repr(flower.stopper._stepper.state),
        }
        return {name: fingerprint(value) for name, value in found.items()}
    finally:
        flower.end()


def client_memory(folder, run="ab12", client=2):
    from flwr.app import Context, RecordDict

    from fedhalt.integrations.flower.memory import ClientMemory

    node = {"memory": str(folder), "partition-id": client}
    return ClientMemory(Context(1, 7, node, RecordDict(), {}), run, confirmed=2)


def memories(place):
    import torch

    for r in (1, 2, 3):
        client_memory(place).write(r, {"ci": torch.arange(6.0) + r})
    return [tree_of(place)]


def read_memory(place):
    found = client_memory(place).read(4)
    return None if found is None else {name: vector.tolist() for name, vector in found.items()}


class Messages:
    """Replies and answers of clients, changed one by one: each is read, and is what it should be, or a BadReply."""

    name, weight = "messages", 12

    def available(self):
        return Reader("", None, None, needs=("flwr", "torch")).available()

    def prepare(self, place):
        from flwr.app import Array
        from grid import InProcessGrid, pulling_app

        self.grid = InProcessGrid(pulling_app())  # its being there lets messages be made
        self.arrays = {name: Array(np.full(shape, 0.25, dtype)) for name, (shape, dtype) in FORMS.items()}

    def make(self, draw):
        from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

        request = Message(RecordDict({}), dst_node_id=1000, message_type="train")
        metrics = {"num-examples": 10, "client": 1, "remembered": 0, "steps": 3, "loss": 0.5, "by_class": [0.5, 0.25]}
        content = {"up": ArrayRecord(self.arrays), "metrics": MetricRecord(metrics)}
        message = Message(RecordDict(content), reply_to=request)
        for _ in range(draw.choice([1, 1, 1, 2, 3])):
            mutate_reply(draw, message.content)
        names = [name for name in ("client", "samples", "x") if draw.random() < 0.8]
        answer = MetricRecord({name: draw.choice(NUMBERS[:8]) for name in names})
        return message, Message(RecordDict({"fedhalt": answer}), reply_to=request)

    def attempt(self, sample):
        from fedhalt.integrations.flower.replies import Intake, metrics_form, read_metrics, read_reply, unlike_most
        from fedhalt.integrations.flower.roster import _read_answer

        message, answer = sample
        said = refused_or(lambda: _read_answer(answer))
        assert said is None or (said.number >= 0 and said.samples >= 0)
        evaluation = Intake([message], lambda reply: read_metrics(reply, "num-examples"))
        assert unlike_most(evaluation.good, metrics_form) == {} and self.grid.sent == []
        reply = refused_or(lambda: read_reply(message, FORMS, "num-examples"))
        if reply is None:
            return False
        for name, vector in reply.vectors.items():
            assert (vector.shape, vector.dtype.str) == FORMS[name] and np.isfinite(vector).all()
            assert math.isfinite(reply.norms[name])
        assert 1 <= reply.samples <= 10**12 and reply.client >= 0
        numbers = [x for value in reply.metrics.values() for x in (value if isinstance(value, list) else [value])]
        assert all(math.isfinite(number) for number in numbers)
        return True

    def keep(self, sample, folder):
        folder.mkdir(parents=True)
        (folder / "messages.txt").write_text("\n".join(repr(message.content) for message in sample))


def refused_or(read):
    from fedhalt.integrations.flower.replies import BadReply

    try:
        return read()
    except BadReply as error:
        assert str(error).isprintable() and len(str(error)) <= 300
        return None


def any_array(draw):
    from flwr.app import Array

    shape, dtype = draw.choice(SHAPES[:10]), draw.choice(TYPES[:11])
    array = np.full(shape, draw.choice([0.25, 1e19, 3e38, np.nan, np.inf]), np.float64)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Array(array.astype(dtype))


def mutated_bytes(draw, array):
    """The bytes of an array with some changed, cut off or added, and whatever is declared about them."""
    from flwr.app import Array

    data = bytearray(array.data)
    for _ in range(draw.randint(1, 4)):
        what = draw.randrange(4)
        if what == 0 and data:
            data[draw.randrange(len(data))] = draw.randrange(256)
        elif what == 1:
            del data[draw.randrange(len(data) + 1) :]
        elif what == 2:
            data += draw.randbytes(draw.randint(1, 40))
        elif data:
            position = draw.randrange(min(128, len(data)))
            data[position] ^= 1 << draw.randrange(8)
    stype = draw.choice(["numpy.ndarray"] * 9 + ["torch.tensor"])
    shape = draw.choice([array.shape, draw.choice(SHAPES)])
    return Array(draw.choice([array.dtype, draw.choice(TYPES)]), shape, stype, bytes(data))


def mutate_reply(draw, content):
    from flwr.app import ArrayRecord, MetricRecord

    what = draw.randrange(8)
    up, metrics = content.get("up"), content.get("metrics")
    if what == 0:
        content.pop(draw.choice(["up", "metrics"]), None)
    elif what == 1:
        content[draw.choice(["up", "metrics", "more"])] = MetricRecord({"a": draw.choice(NUMBERS)})
    elif what == 2 and isinstance(up, ArrayRecord) and up:
        del up[draw.choice(list(up))]
    elif what in (3, 4) and isinstance(up, ArrayRecord) and up:
        name = draw.choice([*up, "extra\x1b[31m"])
        up[name] = any_array(draw) if what == 3 else mutated_bytes(draw, draw.choice(list(up.values())))
    elif isinstance(metrics, MetricRecord) and metrics:
        name = draw.choice([*metrics, "other"])
        if what == 5:
            metrics.pop(name, None)
        elif what == 6:
            metrics[name] = draw.choice(NUMBERS)
        else:
            number = draw.choice(NUMBERS)
            metrics[name] = [number] * draw.randrange(4)


READERS = [
    Reader("flower state", states, opened, needs=("flwr", "torch"), same=lambda found, whole: found in (None, whole),
           forgeries={".json": forge_seal}, weight=4),
    Reader("client memory", memories, read_memory, needs=("flwr", "torch"),
           same=lambda found, whole: found in (None, whole), weight=8),
    Messages(),
]  # fmt: skip
