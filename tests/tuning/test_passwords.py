"""A password in a storage's URL is shown nowhere, however the URL is spelled and whoever complains about it."""

import pytest

pytest.importorskip("optuna")
pytest.importorskip("torch")

from helpers.specs import SMALL, write_toml

from fedhalt import FedhaltError
from fedhalt.tuning import plans as plan
from fedhalt.tuning.redaction import redact_message, redact_url

LEAKS = ("hunter", "tiger", "Ln1on")
SPELLINGS = [
    "postgresql://me:hunter2@127.0.0.1:9/base",
    "postgresql://me:hun@hunter2@127.0.0.1:9/base",
    "postgresql://me:hunter/tiger@127.0.0.1:9/base",
    "postgresql://me:hunter?tiger@127.0.0.1:9/base",
    "postgresql://me:hunter#tiger@127.0.0.1:9/base",
    "postgresql://me:hunter:tiger@127.0.0.1:9/base",
    "postgresql://me:hunter%40tiger@127.0.0.1:9/base",
    "postgresql://:hunter2@127.0.0.1:9/base",
    "postgresql://me:hunter2@/base?host=/tmp/nowhere",
    "postgresql://127.0.0.1:9/base?user=me&password=hunter2",
    "postgresql://127.0.0.1:9/base?password=hunter@tiger",
    "postgresql://127.0.0.1:9/base?password=hunter&tiger",
    "postgresql://127.0.0.1:9/base?passwd=hunter2",
    "postgresql://127.0.0.1:9/base?sslmode=require&sslpassword=hunter2&connect_timeout=1",
    "postgresql://me:hunter2",
    "postgresql://me:hunter2/tiger",
    "postgresql:///me:hunter2@127.0.0.1:9/base",
    "postgresql:/me:hunter2@127.0.0.1:9/base",
    "postgresql+psycopg://me:hunter2@127.0.0.1:9/base",
    "mysql://me:hunter2@127.0.0.1:9/base",
    "mysql+nodriver://me:hunter2@127.0.0.1:9/base",
    "mysql://127.0.0.1:9/base?pwd=hunter2",
    "sqlite://me:hunter2@/nowhere/study.db",
    "sqlite:////nowhere/study.db?password=hunter/2",
    "sqlite+pysqlcipher://:hunter2@/study.db?cipher=aes",
    "journal://me:hunter2@/nowhere/study.log",
    "redis://:hunter2@127.0.0.1:9/0",
    "me:hunter2@host://x",
    "me:hunter2@127.0.0.1:9/base",
    "me:hunter/tiger@127.0.0.1/base",
    "127.0.0.1/base?password=hunter2",
    "host=127.0.0.1 user=me password=hunter2 dbname=base",
    "password='Ln1on' host=127.0.0.1",
]


def leaks(*texts):
    return [word for text in texts for word in LEAKS if word in str(text)]


@pytest.mark.parametrize("url", SPELLINGS)
def test_no_spelling_shows_it(url, tmp_path, monkeypatch, fedhalt):
    monkeypatch.chdir(tmp_path)
    settings = {"sampler": "tpe", "trials": 1, "rounds": 1, "storage": url, "space": {**SMALL, "lr": 0.1}}
    code, out, err = fedhalt("sweep", write_toml(tmp_path / "sweep.toml", **settings), "--json")
    assert code == 2 and len(err.strip().splitlines()) == 1 and err.startswith("fedhalt: ") and not leaks(out, err), err
    read = plan.plan(settings)
    assert read.storage == url and not leaks(repr(read), read, vars(read).keys())


@pytest.mark.parametrize("url", SPELLINGS)
def test_nor_does_what_a_driver_says(url):
    words = [word for word in ("hunter2", "hunter@tiger", "hunter/tiger", "tiger@127.0.0.1", "Ln1on") if word in url]
    for said in (f"cannot connect to {url}", *(f"invalid port '{word}'" for word in words)):
        assert not leaks(redact_message(said, url)), said
    decoded = redact_message("password 'hunter@tiger' is wrong", "postgresql://me:hunter%40tiger@host/base")
    assert not leaks(decoded, redact_url(url))


@pytest.mark.parametrize("url", [
    "sqlite:///study.db", "sqlite:////data/my runs/study.db", "journal:///study.log", "postgresql://host:5432/base",
    "postgresql://[::1]:5432/base", "mysql://host/base", "study.db", "C:\\runs\\study.db",
])  # fmt: skip
def test_what_holds_no_password_is_shown_whole(url):
    assert redact_url(url) == url and redact_message(f"no {url}", url) == f"no {url}"


def test_what_a_driver_says_is_shown_where_it_tells_nothing():
    said = 'connection to server at "127.0.0.1", port 9 failed: Connection refused'
    assert redact_message(said, "postgresql://me:hunter2@127.0.0.1:9/base?sslmode=require") == said


@pytest.mark.parametrize("value", [["postgresql://me:hunter2@host/base"], {"url": "postgresql://me:hunter2@h/b"}])
def test_a_storage_that_is_no_text_is_not_repeated(value):
    with pytest.raises(FedhaltError, match="storage must be text") as error:
        plan.plan({"space": {"lr": 0.1}, "sampler": "tpe", "trials": 1, "storage": value})
    assert not leaks(error.value)


def test_a_storage_that_fails_while_the_sweep_goes_on():
    from sqlalchemy.exc import OperationalError

    from fedhalt.tuning.samplers.optuna_storage import FAILURES, storage_errors

    url = "postgresql://me:hunter2@host/base"
    for words, shown in (("server closed the connection", True), (f"lost {url}", False)):
        with pytest.raises(FedhaltError) as error, storage_errors(url, FAILURES):
            raise OperationalError("SELECT 'hunter2'", {}, Exception(words))
        assert not leaks(error.value) and (words in str(error.value)) == shown
    with pytest.raises(KeyError), storage_errors(url, FAILURES):  # a mistake of ours is not dressed up
        raise KeyError("x")
