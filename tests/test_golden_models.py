"""Files of every format version stay readable: serialized_models/golden/ has some of each, written once and
kept.
"""

import platform
from pathlib import Path

import numpy as np
import pytest
from doubling import counter_library, double_library, expected

from tapecast import runtime
from tapecast.compiler.artifact import write_artifact
from tapecast.serialized_models.format import FORMAT_VERSION

GOLDEN = Path(__file__).resolve().parents[1] / "serialized_models" / "golden"
ARTIFACTS = sorted(GOLDEN.glob("v*/*.so"))
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the golden artifacts are for x86-64")


def test_every_version_has_golden_files():
    assert {int(p.parent.name[1:]) for p in ARTIFACTS} == set(range(1, FORMAT_VERSION + 1))


@on_x86
@pytest.mark.parametrize("path", ARTIFACTS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_golden_artifacts_run(path: Path):
    model = runtime.load(path)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert (model.forward(x) == expected(x)).all()
    if "step" in model.methods:
        assert [model.step(np.ones(2, np.float32)).tolist() for _ in range(2)] == [[11, 21], [12, 22]]


@pytest.mark.parametrize("path", ARTIFACTS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_golden_artifacts_can_be_inspected(path: Path):
    info = runtime.inspect(path)
    assert all(info.sections.values())
    assert str(info.manifest.format) == path.parent.name[1:]


def write_golden_files() -> None:
    """Write those of the present version. Run it once, when a format version is new; files in use never
    change.
    """
    folder = GOLDEN / f"v{FORMAT_VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    for library in (double_library(), counter_library()):
        write_artifact(folder / f"{library.name}.so", library)
        (folder / f"{library.name}.h").unlink()
    (folder / "tapecast.h").unlink()
