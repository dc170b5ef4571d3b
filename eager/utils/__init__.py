"""`tapecast.utils`: what PyTorch keeps under `torch.utils`. Loading of data is in `eager/data`."""

from .. import data as data
from . import checkpoint as checkpoint, dlpack as dlpack
