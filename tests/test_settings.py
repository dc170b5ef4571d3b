"""Settings that PyTorch programs make: kept, asked back, refused where they would be wrong."""

import pytest

import tapecast as tc


def test_settings_are_kept():
    before = tc.get_num_threads()
    try:
        tc.set_num_threads(1)
        assert tc.get_num_threads() == 1
    finally:
        tc.set_num_threads(before)
    tc.use_deterministic_algorithms(True, warn_only=True)
    assert tc.are_deterministic_algorithms_enabled()
    assert tc.is_deterministic_algorithms_warn_only_enabled()
    tc.use_deterministic_algorithms(False)
    assert not tc.are_deterministic_algorithms_enabled()
    tc.set_float32_matmul_precision("high")
    assert tc.get_float32_matmul_precision() == "high"
    tc.set_float32_matmul_precision("highest")
    tc.set_default_device("cpu")
    assert tc.get_default_device() == tc.device("cpu")
    assert tc.set_flush_denormal(True) is False


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        (lambda: tc.set_num_threads(0), RuntimeError),
        (lambda: tc.set_num_threads(1.5), TypeError),
        (lambda: tc.set_float32_matmul_precision("low"), ValueError),
        (lambda: tc.set_default_device("cuda"), RuntimeError),
    ],
)
def test_wrong_settings_are_refused(setting, error):
    with pytest.raises(error):
        setting()


def test_backends_can_be_asked_and_set():
    from tapecast.backends import cudnn

    cudnn.benchmark = True
    assert tc.backends.cudnn.benchmark
    cudnn.benchmark = False
    assert not tc.backends.cudnn.is_available() and not tc.backends.mps.is_available()
    assert tc.backends.cuda.matmul.allow_tf32 is False
