"""Files of settings that nobody should write: each ends in one sentence and status 2."""

import pytest

pytest.importorskip("torch")

DEEP = "x = " + "[" * 2000 + "]" * 2000
LONG = "rounds = " + "9" * 5000
SPACE = "[space]\nlr = [0.1]\n"

RUN = [
    ("rule = 5", ["rule", "5"]),
    ("rule = [5]", ["rule", "5"]),
    ("rule = {name = 'growth'}", ["rule", "name"]),
    ("watch = ['growth']", ["watch is called rule now", "rule = ['growth']"]),
    ("track = 5", ["track", "5"]),
    ("track = [[]]", ["track"]),
    ("track = 'mlfow'", ["mlfow", "mlflow"]),
    (DEEP, ["nested too deeply"]),
    (LONG, ["not a TOML file", "digits"]),
    ("rounds = " + "9" * 4000, ["rounds"]),
    ("seed = -1", ["seed"]),
    ("lr = 1979-05-27", ["lr"]),
    ("lr = {low = 1}", ["lr"]),
    ("data = 5", ["data"]),
    ("out = 5", ["out", "5"]),
    ("method = []", ["[]", "fedavg"]),
    ("lam = []\nmethod = 'fedprox'", ["lam"]),
    ("a" * 100_000, ["not a TOML file"]),
    ("\ufeffrounds = 5", ["not a TOML file"]),
    (b"rounds = 5 # \xff", ["not a TOML file"]),
    (b"rounds = 5\x00", ["not a TOML file"]),
]
SWEEP = [
    ("track = 5\n" + SPACE, ["track", "5"]),
    ("track = [5]\n" + SPACE, ["track", "5"]),
    ("track = ['mlfow']\n" + SPACE, ["mlfow", "mlflow"]),
    (DEEP, ["nested too deeply"]),
    (LONG, ["not a TOML file", "digits"]),
    ("space = 5", ["space"]),
    ("space = []", ["space"]),
    ("screen = 5\n" + SPACE, ["screen", "5"]),
    ("screen = {rule = 5}\n" + SPACE, ["5", "wandering"]),
    ("screen = {threshold = []}\n" + SPACE, ["threshold"]),
    ("rounds = [5]\n" + SPACE, ["rounds"]),
    ("sampler_seed = -1\nsampler = 'random'\ntrials = 2\n" + SPACE, ["sampler_seed"]),
    ("[space]\nlr = [[0.1]]", ["lr"]),
    ("[space]\nlr = 1979-05-27", ["lr"]),
    ("[space]\nlr = {low = 'a', high = 2}", ["low"]),
    ("[space]\nmethod = [5]", ["5", "fedavg"]),
    ("[space]\nmethod = {low = 1, high = 2}", ["method"]),
    ("[space]\ndata = {low = 1, high = 2}", ["data"]),
]


@pytest.mark.parametrize("text, words", RUN)
def test_of_a_run(text, words, tmp_path, monkeypatch, fedhalt):
    monkeypatch.chdir(tmp_path)
    check(tmp_path, text, words, lambda file: fedhalt("run", "--config", file))


def test_of_a_partition(tmp_path, fedhalt):
    check(tmp_path, DEEP, ["nested too deeply"], lambda file: fedhalt("partition", "--config", file))


@pytest.mark.parametrize("text, words", SWEEP)
def test_of_a_sweep(text, words, tmp_path, monkeypatch, fedhalt):
    monkeypatch.chdir(tmp_path)
    check(tmp_path, text, words, lambda file: fedhalt("sweep", file))


def check(folder, text, words, call):
    file = folder / "settings.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    code, out, err = call(file)
    assert code == 2 and not out and err.startswith("fedhalt: ") and len(err.strip().splitlines()) == 1, (code, err)
    assert all(word in err for word in words), err[:500]
    assert [path.name for path in folder.iterdir()] == ["settings.toml"]  # nothing was begun
