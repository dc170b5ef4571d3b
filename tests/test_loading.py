"""Loading and inspecting artifacts: from where, and what is refused before any of its code runs."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from doubling import ABI, FORWARD, aarch64_library, compiled, double_library, expected

from tapecast import runtime
from tapecast.compiler import artifact
from tapecast.compiler.artifact import write_artifact
from tapecast.serialized_models import format as file_format
from tapecast.serialized_models.format import ArtifactError
from tapecast.serialized_models.writer import write_program

X = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("model") / "double.so"
    write_artifact(file, double_library())
    return file


def test_load_from_bytes_and_from_a_descriptor(path: Path, tmp_path: Path):
    data = path.read_bytes()
    assert (runtime.load(data)(X) == expected(X)).all()
    other = replace(double_library(), weights=np.array([4, 5, 6], np.float32).tobytes())
    write_artifact(tmp_path / "other.so", other)
    for origin in ((tmp_path / "other.so").read_bytes(), bytearray((tmp_path / "other.so").read_bytes())):
        assert runtime.load(origin)(0 * X)[0].tolist() == [4, 5, 6]
    with open(tmp_path / "other.so", "rb") as file:
        assert runtime.load(file.fileno())(0 * X)[0].tolist() == [4, 5, 6]
        assert file.read(4) == b"\x7fELF"


def test_many_models_from_bytes_are_different_models(tmp_path: Path):
    """The dynamic loader takes a name it knows for the library it has; each of these reuses a descriptor
    number.
    """
    for k in range(5):
        weights = np.full(3, k, np.float32).tobytes()
        write_artifact(tmp_path / "m.so", replace(double_library(), weights=weights))
        assert runtime.load((tmp_path / "m.so").read_bytes())(0 * X)[0, 0] == k


def test_a_replaced_file_is_loaded_anew_and_the_old_model_goes_on(tmp_path: Path):
    models = []
    for k in range(3):
        weights = np.full(3, k, np.float32).tobytes()
        write_artifact(tmp_path / "m.so", replace(double_library(), weights=weights))
        models.append(runtime.load(tmp_path / "m.so"))
    assert [m(0 * X)[0, 0] for m in models] == [0, 1, 2]


def test_a_file_overwritten_in_place_is_refused(tmp_path: Path):
    write_artifact(tmp_path / "m.so", replace(double_library(), weights=np.full(3, 71, np.float32).tobytes()))
    write_artifact(tmp_path / "n.so", replace(double_library(), weights=np.full(3, 72, np.float32).tobytes()))
    runtime.load(tmp_path / "m.so")
    with open(tmp_path / "m.so", "r+b") as file:
        file.write((tmp_path / "n.so").read_bytes())
    with pytest.raises(ArtifactError, match="was overwritten while an earlier content of it is loaded"):
        runtime.load(tmp_path / "m.so")


def test_files_that_are_none(tmp_path: Path, path: Path):
    (tmp_path / "empty.so").touch()
    (tmp_path / "text.so").write_text("#!/bin/sh\n")
    (tmp_path / "other.so").write_bytes(Path(np._core._multiarray_umath.__file__).read_bytes())
    cases = {
        tmp_path
        / "missing.so": "does not exist: give the path of .* in that folder are empty.so, other.so, text.so",
        tmp_path: "is a folder: give a tapecast artifact",
        tmp_path / "empty.so": "is empty",
        tmp_path / "text.so": "begins with '#!/b', not as a library",
        tmp_path / "other.so": "it is some other library",
        987654: "descriptor 987654 cannot be read",
    }
    for origin, message in cases.items():
        with pytest.raises(ArtifactError, match=message):
            runtime.load(origin)
    with pytest.raises(ArtifactError, match="the 4 bytes given is not a tapecast artifact: it begins with"):
        runtime.load(b"\x00\x01\x02\x03")


def test_a_program_is_no_artifact(tmp_path: Path):
    manifest = file_format.dump_manifest({"kind": file_format.PROGRAM, "format": 1})
    write_program(tmp_path / "model.tape", manifest, b"graph", b"weights")
    with pytest.raises(
        ArtifactError, match="it is a tapecast program: compile it first, with `tapecast compile"
    ):
        runtime.load(tmp_path / "model.tape")


@pytest.fixture(scope="module")
def data(path: Path) -> bytes:
    return path.read_bytes()


def test_a_file_cut_short_anywhere(data: bytes):
    for size in [*range(0, 100), *range(100, len(data), 37), *range(len(data) - 200, len(data))]:
        with pytest.raises(ArtifactError):
            runtime.load(data[:size])


def test_any_flipped_bit(data: bytes):
    generator = np.random.default_rng(0)
    places = [
        *range(0, 64),
        *range(len(data) - 140, len(data)),
        *generator.integers(0, len(data), 300).tolist(),
    ]
    for place in places:
        wrong = bytearray(data)
        wrong[place] ^= 1 << int(generator.integers(8))
        with pytest.raises(ArtifactError):
            runtime.load(wrong)
        with pytest.raises(ArtifactError):
            runtime.inspect(wrong)


def test_bytes_appended_or_prepended(data: bytes):
    for wrong in (data + b"\n", b"\n" + data, data + data):
        with pytest.raises(ArtifactError):
            runtime.load(wrong)


def write_changed(path: Path, monkeypatch: pytest.MonkeyPatch, **change: object) -> None:
    """An artifact with a right digest and another manifest, as another version of this package might
    write.
    """
    described = artifact.describe
    with monkeypatch.context() as patch:
        patch.setattr(artifact, "describe", lambda *args: described(*args) | change)
        patch.setattr(artifact, "read_manifest", lambda *args: None)
        write_artifact(path, double_library())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"format": 2},
            "format version 2 and this tapecast reads up to 1: upgrade tapecast here to 9.1.0 or later",
        ),
        ({"abi": 7}, "ABI version 7"),
        ({"kind": "song"}, "it is a song: check the path"),
        ({"entries": [{}]}, "its manifest makes no sense"),
        ({"entries": []}, "there is no entry point"),
        ({"dims": None}, "its manifest makes no sense"),
        ({"machine": "vax"}, "the machine 'vax' is none of x86-64, aarch64"),
        ({"name": "triple"}, "symbol 'double_forward'"),
        ({"format": "new"}, "its manifest cannot be read"),
    ],
)
def test_other_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict, message: str):
    builder = {"name": "tapecast", "version": "9.1.0"}
    write_changed(tmp_path / "m.so", monkeypatch, builder=builder, **change)
    with pytest.raises(ArtifactError, match=message):
        runtime.load(tmp_path / "m.so")


def test_another_processor_family(tmp_path: Path):
    write_artifact(tmp_path / "m.so", aarch64_library())
    with pytest.raises(
        ArtifactError, match=r"is for aarch64 and this process runs on x86_64: compile .* --target portable"
    ):
        runtime.load(tmp_path / "m.so")
    assert runtime.inspect(tmp_path / "m.so").manifest.machine == "aarch64"


def test_verify_false_skips_the_digest_alone(data: bytes):
    wrong = bytearray(data)
    wrong[data.index(b"graph forward")] = ord("G")
    assert (runtime.load(wrong, verify=False)(X) == expected(X)).all()
    with pytest.raises(ArtifactError, match="do not have the digest"):
        runtime.load(wrong)


def test_loading_leaves_no_open_descriptor(path: Path, data: bytes):
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    runtime.load(path)
    before = descriptors()
    for _ in range(3):
        runtime.load(path)
        runtime.load(data)
        with pytest.raises(ArtifactError):
            runtime.load(data[:-1])
    assert descriptors() == before


# ---- inspect ---------------------------------------------------------------------------------------------


def test_inspect_reads_everything(path: Path):
    info = runtime.inspect(path)
    assert info.graph == double_library().graph_text
    assert info.sections == {"code": True, "graph": True, "weights": True}
    text = str(info)
    for part in (
        "double, 6.",
        "format 1, ABI 1, built by tapecast",
        "x86-64-v2",
        "forward(x: float32[batch, 3])",
    ):
        assert part in text
    assert "kernel double_add of forward: model.py:3 in forward" in text
    assert "not verified" in text


def test_inspect_runs_nothing(tmp_path: Path):
    """This file's constructor would end the process."""
    text = (
        ABI
        + FORWARD
        + (
            "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 0, "
            "ptr @MODEL_trap, ptr null }]\n"
            "declare void @llvm.trap()\ndefine internal void @MODEL_trap() {\n  call void @llvm.trap()\n  "
            "ret void\n}\n"
        )
    )
    write_artifact(tmp_path / "m.so", replace(double_library(), objects=(compiled(text, "double"),)))
    assert runtime.inspect(tmp_path / "m.so").manifest.name == "double"
    code = "import sys, tapecast.runtime as r; r.load(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m.so")], capture_output=True, check=False
    )
    assert done.returncode < 0
