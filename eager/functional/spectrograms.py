"""Short-time Fourier transforms: of windows that slide along a signal, and back from them."""

from __future__ import annotations

import warnings

from .. import fft
from ..tensor import Tensor
from .arranging import pad_axes
from .base import known_now
from .complexes import view_as_real
from .creation import ones
from .ranges import arange
from .scattering import index_add
from .shaping import reshape, squeeze, transpose, unsqueeze
from .slicing import narrow
from .strides import unfold


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """[…, frequencies, frames] of a signal [time] or [batch, time]: transforms of windows hop_length apart.

    window: [win_length], centred in n_fft. center: the signal is padded by n_fft // 2 at both ends. onesided: the
    frequencies 0 … n_fft // 2 alone, the default for real signals. RuntimeError for sizes that do not fit.
    """
    complex_values = input.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None and not complex_values:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further require that "
            "return_complex=True in a future PyTorch release."
        )
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if input.array.dtype.kind in "biu" or input.ndim not in (1, 2):
        raise RuntimeError(
            f"stft: expected a 1D or 2D tensor of floating point or complex values, got {input.ndim}D {input.dtype}"
        )
    x = unsqueeze(input, 0) if input.ndim == 1 else input
    if center:
        from . import pad

        side = n_fft // 2
        x = squeeze(pad(unsqueeze(x, 0), (side, side), pad_mode), 0)
    hop, size = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    if align_to_window:
        before = (n_fft - size) // 2
        x = pad_axes(x, (0, before), (0, n_fft - size - before))
    if not 0 < n_fft <= x.array.shape[-1]:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {int(x.array.shape[-1])}, but got n_fft={n_fft}")
    check_hop("stft", n_fft, hop, size, window)
    onesided = not complex_values if onesided is None else onesided
    if onesided and complex_values:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    frames = unfold(x, -1, n_fft, hop)
    if window is not None or size < n_fft:
        frames = frames * centred(window, size, n_fft, input)
    transform = fft.rfft if onesided else fft.fft
    out = transpose(transform(frames, norm="ortho" if normalized else None), -1, -2)
    out = squeeze(out, 0) if input.ndim == 1 else out
    return view_as_real(out) if return_complex is False else out


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal [time] or [batch, time] whose short-time transforms, as `stft` has them, are nearest to the input's.

    length: cut or padded with zeros to so many samples. RuntimeError where the windows leave samples out.
    """
    if not input.dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if input.ndim not in (2, 3) or 0 in input.array.shape:
        raise RuntimeError(f"istft: expected a 2D or 3D tensor that is not empty, got {list(input.shape)}")
    x = unsqueeze(input, 0) if input.ndim == 2 else input
    hop, size = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    check_hop("istft", n_fft, hop, size, window)
    if hop > size:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, got {hop} and {size}")
    found = int(x.array.shape[-2])
    onesided = found != n_fft if onesided is None else onesided
    if found != (n_fft // 2 + 1 if onesided else n_fft):
        raise RuntimeError(
            f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft"
            f"{' / 2 + 1 when onesided=True' if onesided else ' when onesided=False'}, but got {found}"
        )
    if return_complex and onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if window is not None and window.dtype.is_complex and not return_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    norm, frames = "ortho" if normalized else None, transpose(x, -1, -2)
    # A real signal is that of the first half of the frequencies, whatever stands in the other.
    pieces = fft.ifft(frames, n_fft, norm=norm) if return_complex else fft.irfft(frames, n_fft, norm=norm)
    shape = centred(window, size, n_fft, pieces)
    signal = overlapped(pieces * shape, hop)
    weight = overlapped(unsqueeze((shape * shape).expand(pieces.array.shape[1:]), 0), hop)
    start, stop = cut(n_fft, int(signal.array.shape[-1]), center, length)
    signal, weight = (narrow(s, -1, start, stop - start) for s in (signal, weight))
    known = known_now(weight)
    if known is not None and abs(known).min(initial=1.0) < 1e-11:
        raise RuntimeError("istft: window overlap add min: 0; the windows leave samples without a weight")
    out = signal / weight
    if length is not None and stop - start < length:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the "
            "tail. Please check your center and hop_length settings.",
            stacklevel=2,
        )
        out = pad_axes(out, (0, 0), (0, length - (stop - start)))
    return squeeze(out, 0) if input.ndim == 2 else out


def check_hop(name: str, n_fft: int, hop: int, size: int, window: Tensor | None) -> None:
    """RuntimeError for steps and windows that do not fit a transform of n_fft samples."""
    if n_fft <= 0 or hop <= 0:
        raise RuntimeError(f"{name}: expected n_fft > 0 and hop_length > 0, but got {n_fft} and {hop}")
    if not 0 < size <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={size}")
    if window is not None and tuple(window.array.shape) != (size,):
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={size}, but got window with size "
            f"{list(window.shape)}"
        )


def centred(window: Tensor | None, size: int, n_fft: int, like: Tensor) -> Tensor:
    """A window [n_fft]: the one given, or ones, with zeros on both sides."""
    if window is None:
        window = ones(size, dtype=like.dtype, device=like.device)
    before = (n_fft - size) // 2
    return pad_axes(window, (before,), (n_fft - size - before,))


def overlapped(pieces: Tensor, hop: int) -> Tensor:
    """[batch, time]: the sums of pieces [batch, frames, n] that start `hop` samples apart."""
    batch, frames, n = (int(k) for k in pieces.array.shape)
    places = unsqueeze(arange(frames, device=pieces.device) * hop, 1) + arange(n, device=pieces.device)
    out = pieces.new_zeros((batch, (frames - 1) * hop + n))
    return index_add(out, 1, reshape(places, (-1,)), reshape(pieces, (batch, frames * n)))


def cut(n_fft: int, have: int, center: bool, length: int | None) -> tuple[int, int]:
    """Where the signal starts and stops in the sum of all pieces."""
    start = n_fft // 2 if center else 0
    stop = have - start if length is None else min(start + length, have)
    return start, stop
