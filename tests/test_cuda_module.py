"""`tapecast.cuda`, with cupy played by a stand-in: what is asked of it, and what is said without it."""

import sys
from types import SimpleNamespace

import pytest

import tapecast as tc


class FakeDevice:
    waited: list[int] = []  # noqa: RUF012

    def __init__(self, index: int) -> None:
        self.index = index

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def synchronize(self) -> None:
        self.waited.append(self.index)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch):
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 2,
        getDevice=lambda: 1,
        getDeviceProperties=lambda index: {"name": f"GPU {index}".encode(), "major": 9, "minor": index},
        CUDARuntimeError=OSError,
    )
    pool = SimpleNamespace(used_bytes=lambda: 512, free_all_blocks=lambda: None)
    cupy = SimpleNamespace(
        cuda=SimpleNamespace(runtime=runtime, Device=FakeDevice), get_default_memory_pool=lambda: pool
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(FakeDevice, "waited", [])
    return cupy


@pytest.mark.usefixtures("two_gpus")
def test_two_gpus():
    assert tc.cuda.is_available() and tc.cuda.device_count() == 2
    assert tc.cuda.current_device() == 1
    assert tc.cuda.get_device_name() == "GPU 1"
    assert tc.cuda.get_device_capability("cuda:0") == (9, 0)
    assert tc.cuda.memory_allocated(tc.device("cuda")) == 512
    tc.cuda.empty_cache()


@pytest.mark.usefixtures("two_gpus")
def test_synchronize_waits_for_the_device_that_is_named():
    for of in (None, 0, "cuda", "cuda:0", tc.device("cuda", 1)):
        tc.cuda.synchronize(of)
    assert FakeDevice.waited == [1, 0, 1, 0, 1]


@pytest.mark.usefixtures("two_gpus")
def test_another_device_is_refused():
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        tc.cuda.get_device_name("cpu")


def test_no_driver_means_no_gpu(two_gpus, monkeypatch: pytest.MonkeyPatch):
    def silent() -> int:
        raise OSError("no CUDA-capable device is detected")

    monkeypatch.setattr(two_gpus.cuda.runtime, "getDeviceCount", silent)
    assert not tc.cuda.is_available()
    with pytest.raises(RuntimeError, match="no driver answers"):
        tc.cuda.synchronize()


def test_without_cupy_the_advice_is_to_install_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert not tc.cuda.is_available() and tc.cuda.device_count() == 0
    with pytest.raises(RuntimeError, match=r"install tapecast\[cuda\]"):
        tc.cuda.current_device()


def test_one_seed_for_all_devices():
    tc.manual_seed(3)
    expected = tc.rand(4)
    tc.cuda.manual_seed_all(3)
    assert tc.equal(tc.rand(4), expected)
