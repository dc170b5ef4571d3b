"""Optimizers and learning-rate schedules, by PyTorch's names."""

from . import lr_scheduler, swa_utils
from .adam import Adam, AdamW
from .adaptive import Adadelta, Adagrad, RMSprop
from .lbfgs import LBFGS
from .moments import Adamax, NAdam, RAdam
from .optimizer import Optimizer
from .plain import ASGD, Rprop
from .sgd import SGD

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]
