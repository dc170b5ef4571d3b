"""The module names of PyTorch for folders that are arranged in layers: `tapecast.nn` is `tapecast.eager.nn`.

An alias is a second key in `sys.modules` for one module object, made by the import system itself, so that
`import tapecast.nn.functional as F` works before anything is loaded, every class has one identity and one
pickled name, and nothing is loaded that was not asked for.
"""

import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

ALIASES = {
    "amp": "eager.amp",
    "autograd": "eager.autograd",
    "backends": "eager.backends",
    "cuda": "eager.cuda",
    "distributions": "eager.distributions",
    "fft": "eager.fft",
    "func": "eager.func",
    "library": "eager.library",
    "linalg": "eager.linalg",
    "multiprocessing": "eager.multiprocessing",
    "nn": "eager.nn",
    "nn.modules.adaptive": "eager.nn.adaptive_softmax",
    "nn.modules.batchnorm": "eager.nn.norm",
    "nn.modules.container": "eager.nn.containers",
    "nn.modules.conv": "eager.nn.conv",
    "nn.modules.distance": "eager.nn.distance",
    "nn.modules.dropout": "eager.nn.dropout",
    "nn.modules.flatten": "eager.nn.flatten",
    "nn.modules.fold": "eager.nn.resizing",
    "nn.modules.instancenorm": "eager.nn.norm",
    "nn.modules.linear": "eager.nn.linear",
    "nn.modules.loss": "eager.nn.loss",
    "nn.modules.module": "eager.nn.module",
    "nn.modules.normalization": "eager.nn.norm",
    "nn.modules.padding": "eager.nn.padding",
    "nn.modules.pixelshuffle": "eager.nn.resizing",
    "nn.modules.pooling": "eager.nn.pooling",
    "nn.modules.rnn": "eager.nn.recurrent",
    "nn.modules.sparse": "eager.nn.embedding",
    "nn.modules.transformer": "eager.nn.transformer",
    "nn.modules.upsampling": "eager.nn.resizing",
    "nn.utils.clip_grad": "eager.nn.utils.gradients",
    "nn.utils.convert_parameters": "eager.nn.utils.gradients",
    "optim": "eager.optim",
    "random": "eager.random",
    "testing": "eager.testing",
    "special": "eager.special",
    "types": "eager.types",
    "utils": "eager.utils",
    "utils.data": "eager.data",
}
"""Public name to the place of the module, both below the package; the longest match counts."""


def real_name(name: str) -> str | None:
    """The real name behind an alias: `tapecast.nn.functional` gives `tapecast.eager.nn.functional`.

    None for a name that no alias covers.
    """
    package, _, rest = name.partition(".")
    if package != __package__:
        return None
    parts = rest.split(".")
    for end in range(len(parts), 0, -1):
        if target := ALIASES.get(".".join(parts[:end])):
            return ".".join([package, target, *parts[end:]])
    return None


class AliasFinder:
    """Finds modules by their alias; for `sys.meta_path`."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """A spec that loads the real module, or None where there is none, for the usual error message."""
        real = real_name(name)
        if real is None or importlib.util.find_spec(real) is None:
            return None
        return ModuleSpec(name, AliasLoader(real))  # type: ignore[arg-type]


class AliasLoader:
    """Hands out the real module, imported under its own name first where it was not yet.

    Not derived from `importlib.abc.Loader`, whose import would make up most of `import tapecast`.
    """

    def __init__(self, real: str) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.real)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The module has run already. Between the two calls the import system has put the alias's spec on it,
        # which would make relative imports and reload() look in the wrong place.
        module.__spec__ = self.spec


def install() -> None:
    """Put the finder first: the path finder would load `tapecast.nn.functional` a second time, as a copy."""
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
