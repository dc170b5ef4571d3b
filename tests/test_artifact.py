"""The one file: a library and a zip at once, the same bytes each time, whole or not there at all."""

import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from doubling import ABI, FORWARD, FORWARD_ENTRY, WEIGHTS, compiled, counter_library, double_library, expected

from tapecast import runtime
from tapecast.compiler import artifact
from tapecast.compiler.artifact import write_artifact
from tapecast.compiler.cpu.elf_object import LinkError, read_object
from tapecast.compiler.library import Spec
from tapecast.serialized_models.container import ELF_MAGIC, ZIP_MAGIC, digest_of, open_container
from tapecast.serialized_models.format import ArtifactError
from tapecast.serialized_models.writer import check_replaceable, replacing


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "double.so"
    write_artifact(path, double_library())
    return path


def test_a_zip_tool_reads_every_part(model: Path):
    archive = zipfile.ZipFile(model)
    assert archive.testzip() is None
    assert archive.namelist() == ["weights.bin", "graph.txt", "manifest.json"]
    assert archive.read("weights.bin") == WEIGHTS.tobytes()
    assert archive.read("graph.txt").decode() == double_library().graph_text
    assert {i.compress_type for i in archive.infolist()} == {zipfile.ZIP_STORED}


@pytest.mark.skipif(shutil.which("unzip") is None, reason="no unzip on PATH")
def test_unzip_tests_it_without_a_complaint(model: Path):
    done = subprocess.run(["unzip", "-t", str(model)], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr  # 1: a warning, of the bytes before the zip
    assert "No errors detected" in done.stdout


def test_the_weights_are_in_the_file_once_on_a_page(model: Path):
    data = model.read_bytes()
    assert data.count(WEIGHTS.tobytes()) == 1
    part = open_container(data, "model").parts["weights.bin"]
    assert part.offset % 4096 == 0
    assert data[part.offset : part.offset + part.size] == WEIGHTS.tobytes()


def test_the_code_reads_the_weights_of_the_zip(tmp_path: Path):
    weights = np.array([7, 8, 9], np.float32)
    write_artifact(tmp_path / "m.so", replace(double_library(), weights=weights.tobytes()))
    assert runtime.load(tmp_path / "m.so")(np.zeros((1, 3), np.float32)).tolist() == [[7, 8, 9]]


def test_large_weights_are_placed_as_well(tmp_path: Path):
    weights = np.concatenate([WEIGHTS, np.arange(100_000, dtype=np.float32)])
    sizes = write_artifact(tmp_path / "m.so", replace(double_library(), weights=weights.tobytes()))
    assert sizes["file"] < weights.nbytes + 10_000
    assert zipfile.ZipFile(tmp_path / "m.so").read("weights.bin") == weights.tobytes()
    x = np.ones((2, 3), np.float32)
    assert (runtime.load(tmp_path / "m.so")(x) == expected(x)).all()


def test_the_comment_is_the_digest_of_all_before_it(model: Path):
    data = model.read_bytes()
    assert zipfile.ZipFile(model).comment == b"sha256:" + hashlib.sha256(data[:-64]).hexdigest().encode()


def test_the_same_library_gives_the_same_bytes_wherever_it_is_written(tmp_path: Path):
    paths = tmp_path / "a.so", tmp_path / "elsewhere" / "b.so"
    paths[1].parent.mkdir()
    for path in paths:
        write_artifact(path, double_library(), report={"largest error": 0.0})
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert str(tmp_path).encode() not in paths[0].read_bytes()


def test_the_manifest_tells_what_is_inside(tmp_path: Path):
    write_artifact(tmp_path / "m.so", double_library(), report={"largest error": 1e-7})
    manifest = json.loads(zipfile.ZipFile(tmp_path / "m.so").read("manifest.json"))
    assert manifest["kind"] == "tapecast artifact"
    assert (manifest["format"], manifest["abi"], manifest["machine"]) == (1, 1, "x86-64")
    assert manifest["dims"] == {"batch": [1, 1024]}
    assert manifest["entries"][0]["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 3]}]
    assert manifest["entries"][0]["workspace"] == "12*batch"
    assert manifest["kernels"] == [
        {"name": "double_add", "entry": "forward", "lines": ["model.py:3 in forward"]}
    ]
    assert manifest["report"] == {"largest error": 1e-7}
    assert manifest["sections"]["weights"] == {"bytes": 12, "sha256": digest_of(WEIGHTS.tobytes())}


def test_the_parts_have_the_sizes_that_are_returned(tmp_path: Path):
    sizes = write_artifact(tmp_path / "m.so", double_library())
    archive = zipfile.ZipFile(tmp_path / "m.so")
    assert sizes["file"] == (tmp_path / "m.so").stat().st_size
    assert sizes["weights"] == len(archive.read("weights.bin"))
    assert sizes["manifest"] == len(archive.read("manifest.json"))
    assert sizes["graph"] == len(archive.read("graph.txt"))


def test_state_is_kept_in_the_file(tmp_path: Path):
    write_artifact(tmp_path / "m.so", counter_library())
    archive = zipfile.ZipFile(tmp_path / "m.so")
    assert np.frombuffer(archive.read("state.bin"), np.float32)[:2].tolist() == [10, 20]


def test_a_model_without_weights_has_no_such_entry(tmp_path: Path):
    text = ABI + FORWARD.replace(
        "external constant [3 x float]", "internal constant [3 x float] zeroinitializer"
    )
    library = replace(double_library(), objects=(compiled(text, "double"),), weights=b"")
    write_artifact(tmp_path / "m.so", library)
    assert "weights.bin" not in zipfile.ZipFile(tmp_path / "m.so").namelist()
    x = np.ones((2, 3), np.float32)
    assert (runtime.load(tmp_path / "m.so")(x) == 2 * x).all()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(model: Path, monkeypatch: pytest.MonkeyPatch):
    before, files = model.read_bytes(), sorted(model.parent.iterdir())
    monkeypatch.setattr(artifact, "_write", lambda file, *rest: file.write(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_artifact(model, double_library())
    assert model.read_bytes() == before
    assert sorted(model.parent.iterdir()) == files


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        (".", IsADirectoryError, "is a folder: give the path of a file in it"),
        ("no/m.so", FileNotFoundError, "m.so cannot be written: the folder .*no does not exist"),
        ("pipe", FileExistsError, "pipe is not a regular file and is not replaced"),
        ("n" * 300, OSError, "n{300} cannot be written .*File name too long"),
        ("pipe/m.so", NotADirectoryError, r"pipe/m.so cannot be written \(Not a directory\)"),
    ],
)
def test_a_path_that_cannot_be_written_is_named(tmp_path: Path, name: str, kind: type[OSError], message: str):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(kind, match=message), replacing(tmp_path / name):
        pytest.fail("the block should not run")
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]


def test_files_of_another_kind_are_not_replaced(model: Path, tmp_path: Path):
    notes, empty = tmp_path / "notes", tmp_path / "empty"
    notes.write_text("mine")
    empty.touch()
    check_replaceable(model, ELF_MAGIC, "artifact")
    check_replaceable(empty, ELF_MAGIC, "artifact")
    check_replaceable(tmp_path / "new", ELF_MAGIC, "artifact")
    for file, magic in ((notes, ELF_MAGIC), (model, ZIP_MAGIC)):
        with pytest.raises(FileExistsError, match=r"exists and is no .*, so it is not replaced"):
            check_replaceable(file, magic, "artifact" if magic == ELF_MAGIC else "program")


def test_a_reader_of_the_old_file_keeps_it(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with open(path, "rb") as reader, replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert reader.closed and list(tmp_path.iterdir()) == [path]


def test_code_without_an_abi_function_is_refused(tmp_path: Path):
    text = (ABI + FORWARD).replace("define ptr @MODEL_pool", "define hidden ptr @MODEL_pool")
    library = replace(double_library(), objects=(compiled(text, "double"),))
    with pytest.raises(LinkError, match="lacks double_pool"):
        write_artifact(tmp_path / "m.so", library)
    assert list(tmp_path.iterdir()) == []


def test_code_that_exports_another_name_is_refused(tmp_path: Path):
    text = ABI + FORWARD + "define void @stray() {\n  ret void\n}\n"
    with pytest.raises(LinkError, match="exports stray"):
        write_artifact(tmp_path / "m.so", replace(double_library(), objects=(compiled(text, "double"),)))


def test_code_that_needs_a_strange_function_is_refused(tmp_path: Path):
    text = (
        ABI
        + FORWARD
        + "declare void @cblas_sgemm()\ndefine void @MODEL_x() {\n  call void @cblas_sgemm()\n  ret "
        "void\n}\n"
    )
    with pytest.raises(LinkError, match="cblas_sgemm"):
        write_artifact(tmp_path / "m.so", replace(double_library(), objects=(compiled(text, "double"),)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dims": {}}, "the size batch without a range"),
        ({"dims": {"batch": (5, 4)}}, "empty range 5 to 4"),
        ({"entries": ()}, "no entry point"),
        ({"entries": (FORWARD_ENTRY._replace(workspace="12*n"),)}, "depends on n"),
        ({"entries": (FORWARD_ENTRY._replace(inputs=(Spec("x", "float32", (1, 3)),)),)}, "no axis"),
        (
            {"entries": (FORWARD_ENTRY._replace(inputs=(Spec("x", "float31", ("batch", 3)),)),)},
            "unknown dtype",
        ),
        ({"state": {"x": b""}}, "fixed shape"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(tmp_path: Path, change: dict, message: str):
    with pytest.raises(ValueError, match=message):
        write_artifact(tmp_path / "m.so", replace(double_library(), **change))
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_linker_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match='"elf" or "system"'):
        write_artifact(tmp_path / "m.so", double_library(), linker="gold")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no cc on PATH")
def test_the_systems_linker_agrees(tmp_path: Path):
    write_artifact(tmp_path / "m.so", double_library(), linker="system")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert (runtime.load(tmp_path / "m.so")(x) == expected(x)).all()
    assert zipfile.ZipFile(tmp_path / "m.so").read("weights.bin") == WEIGHTS.tobytes()


def test_objects_are_written_on_request(tmp_path: Path):
    write_artifact(tmp_path / "m.so", double_library(), emit_object=True)
    assert (tmp_path / "m.o").read_bytes() == double_library().objects[0]
    weights = read_object((tmp_path / "m.weights.o").read_bytes())
    symbol = next(s for s in weights.symbols if s.name == "double_weights")
    assert weights.sections[symbol.section].data == WEIGHTS.tobytes()
    assert weights.sections[symbol.section].align == 64


def test_the_digest_guards_the_container_alone(model: Path):
    """Without it a damaged directory is still an error of one sentence."""
    data = bytearray(model.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at] ^= 1
    with pytest.raises(ArtifactError, match="directory cannot be read"):
        open_container(bytes(data), "model", verify=False)


def test_large_files_use_the_wide_fields_of_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As entries of 2 GiB and more do; here every entry counts as large."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)
    write_artifact(tmp_path / "m.so", double_library())
    data = bytearray((tmp_path / "m.so").read_bytes())
    assert open_container(data, "m").read("weights.bin") == WEIGHTS.tobytes()
    x = np.ones((2, 3), np.float32)
    assert (runtime.load(tmp_path / "m.so")(x) == expected(x)).all()
    end = data.rindex(b"PK\5\6")
    data[end + 16 : end + 20] = b"\xff" * 4  # the directory beyond 4 GiB: its place is in the zip64 record
    assert open_container(bytes(data), "m", verify=False).read("weights.bin") == WEIGHTS.tobytes()


def test_the_library_loads_without_this_package(model: Path):
    library = ctypes.CDLL(str(model))
    assert library.double_level() == 2
    library.double_forward_workspace.restype = ctypes.c_int64
    assert library.double_forward_workspace(ctypes.byref(ctypes.c_int64(5))) == 60
