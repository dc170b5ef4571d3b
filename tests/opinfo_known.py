"""The operators of operators.txt with a sample that does not pass, and why. `test_opinfo.py` fails once one passes."""

from __future__ import annotations

NORMS = "the statistics that go with the result have no function of their own yet"

KNOWN = {
    "native_batch_norm": NORMS,
    "native_group_norm": NORMS,
    "native_layer_norm": NORMS,
    "nn.functional.embedding_bag": "missing: gather and sum, of which `embedding` and `sum` are the parts",
}
