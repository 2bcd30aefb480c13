"""The client's half: the method and its settings come with the messages, data and model from `task`."""

from fedhalt.integrations.flower import client_app

from .task import federation

app = client_app(federation)
