"""Sequences of different lengths: padded to one tensor, or packed step by step without the padding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

from ... import functional as F
from ...dtypes import int64
from ...tensor import Tensor


class PackedFields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None


class PackedSequence(PackedFields):
    """The steps of several sequences, step after step: `data` (sum of lengths, *).

    Of step t there are `batch_sizes[t]` rows, those of the sequences that are that long, longest first.
    `sorted_indices` brings the sequences into that order, `unsorted_indices` back; None: they came in it.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if batch_sizes is None:
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """The same packing of `fn(data)`."""
        return type(self)(fn(self.data), *self[1:])

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The data moved or converted, as by `Tensor.to`."""
        return self.map(lambda data: data.to(*args, **kwargs))

    def double(self) -> Self:
        """The data as float64."""
        return self.map(lambda data: data.double())

    def float(self) -> Self:
        """The data as float32."""
        return self.map(lambda data: data.float())

    def half(self) -> Self:
        """The data as float16."""
        return self.map(lambda data: data.half())

    def cpu(self) -> Self:
        """The data in main memory."""
        return self.map(lambda data: data.cpu())

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """The data on a GPU."""
        return self.map(lambda data: data.cuda(*args, **kwargs))

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes `permutation`; None stands for the identity."""
    return None if permutation is None else F.argsort(permutation)


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Tensors of (L_i, *) as one of (max L, N, *), or with `batch_first` (N, max L, *), filled up."""
    if padding_side not in ("left", "right"):
        raise ValueError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    sequences = list(sequences)
    longest = max(s.shape[0] for s in sequences)
    rows = []
    for sequence in sequences:
        filling = sequence.new_full((longest - sequence.shape[0], *sequence.shape[1:]), padding_value)
        rows.append(F.cat([sequence, filling] if padding_side == "right" else [filling, sequence]))
    return F.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of their true lengths out of a padded tensor."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(rows.unbind(0), lengths.tolist(), strict=True)]


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack (L, N, *), or with `batch_first` (N, L, *), of which sequence i is `lengths[i]` long.

    RuntimeError for lengths of 0, and with `enforce_sorted` for lengths that grow.
    """
    sizes = [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    steps = input.transpose(0, 1) if batch_first else input
    if len(sizes) != steps.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} (batch_size={steps.shape[1]})"
        )
    if min(sizes, default=0) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    if enforce_sorted and order != list(range(len(sizes))):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if "
            "you do not need ONNX exportability."
        )
    sorted_indices = None if enforce_sorted else F.tensor(order, dtype=int64, device=input.device)
    if sorted_indices is not None:
        steps = steps.index_select(1, sorted_indices)
    counts = [sum(n > t for n in sizes) for t in range(max(sizes))]
    data = F.cat([steps[t, :count] for t, count in enumerate(counts)])
    return PackedSequence(data, F.tensor(counts, dtype=int64), sorted_indices)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded tensor of a packed one, and the lengths, in the order the sequences were packed from."""
    counts = sequence.batch_sizes.tolist()
    if total_length is not None and total_length < len(counts):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {len(counts)}"
        )
    parts = sequence.data.split(counts)
    steps = pad_sequence(parts, batch_first=True, padding_value=padding_value)
    missing = (total_length or len(counts)) - len(counts)
    if missing:
        steps = F.cat([steps, steps.new_full((missing, *steps.shape[1:]), padding_value)])
    lengths = F.tensor([sum(count > i for count in counts) for i in range(counts[0])], dtype=int64)
    if sequence.unsorted_indices is not None:
        steps = steps.index_select(1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.cpu()]
    return steps.transpose(0, 1) if batch_first else steps, lengths


def pack_sequence(sequences: Iterable[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of tensors (L_i, *)."""
    sequences = list(sequences)
    lengths = [s.shape[0] for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The list of tensors (L_i, *) that was packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
