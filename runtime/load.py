"""`load`: a file becomes a model that can be called, after every check that needs none of its code to run."""

from __future__ import annotations

from ..serialized_models.container import ELF_MAGIC, Container, open_container
from ..serialized_models.format import ARTIFACT, MANIFEST, ArtifactError, Manifest, damaged, read_manifest
from .library import open_library
from .model import Model, make_model
from .source import Origin, opened
from .threads import checked_threads, default_threads


def load(origin: Origin, *, threads: int | None = None, verify: bool = True) -> Model:
    """Load a compiled model from a path, its bytes, or an open file descriptor (which stays the caller's).

    `threads` is the most threads a call uses; by default TAPECAST_NUM_THREADS, or the CPUs this process may
    use. `verify=False` skips the digest, which costs about a millisecond per megabyte, for files that are
    checked already.

    Raises ArtifactError, a ValueError, with one sentence for a file that is missing, cut short, damaged, of
    another kind, newer than this package, or for another machine; none of the file's code has run then,
    except that the CPU level is asked of the file itself."""
    count = default_threads() if threads is None else checked_threads(threads, "threads")
    with opened(origin) as source:
        container = open_container(source.data, source.where, verify)
        manifest = manifest_of(container, source.where)
        library = open_library(source, manifest, container.digest, count)
        return make_model(library, manifest, container, count)


def manifest_of(container: Container, where: str) -> Manifest:
    """The checked manifest of an artifact's container. Raises ArtifactError if it is another kind of file."""
    if MANIFEST not in container.parts:
        raise ArtifactError(damaged(where, "it has no manifest"))
    manifest = read_manifest(bytes(container.read(MANIFEST)), where)
    if container.data[:4] != ELF_MAGIC:
        raise ArtifactError(
            f"{where} is a zip of a {ARTIFACT}'s parts and no library: give the model.so itself"
        )
    return manifest
