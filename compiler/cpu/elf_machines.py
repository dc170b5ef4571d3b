"""What differs between processors when LLVM objects are linked: relocation types, call stubs, page size.

Relocation numbers are those of the x86-64 psABI (table 4.9) and of the "ELF for the Arm 64-bit Architecture"
(sections 5.7.5 to 5.7.9).  Only types that LLVM emits for position-independent code of the small code model
are known.
"""

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .elf_object import LinkError

Patch = Callable[[bytearray, int, int, int], None]
"""``patch(image, offset, place, target)`` fixes bytes at ``offset``, loaded at ``place``, for ``target``."""


class Machine(NamedTuple):
    """One processor.  ``absolute``, ``relative`` and ``glob_dat`` are types that the loader resolves."""

    code: int
    name: str
    page: int
    absolute: int
    relative: int
    glob_dat: int
    calls: Mapping[int, Patch]
    """Branches: may go to a stub, so their symbol may live in another library."""
    direct: Mapping[int, Patch]
    """Addresses within the library: their symbol must be defined in it."""
    via_got: Mapping[int, Patch]
    """Addresses of the symbol's slot in the global offset table."""
    stub: Callable[[bytearray, int, int, int], None]
    """Writes ``STUB_SIZE`` bytes at (offset, place) that jump to the address in the slot at ``target``."""


STUB_SIZE = 16


def _signed(value: int, bits: int) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise LinkError(
            f"a distance of {value} bytes does not fit {bits} bits: "
            "declare large data as external and not hidden, so that it is reached through a table"
        )
    return value


def _relative32(image: bytearray, offset: int, place: int, target: int) -> None:
    struct.pack_into("<i", image, offset, _signed(target - place, 32))


def _relative64(image: bytearray, offset: int, place: int, target: int) -> None:
    struct.pack_into("<q", image, offset, target - place)


def _x86_stub(image: bytearray, offset: int, place: int, target: int) -> None:
    image[offset : offset + STUB_SIZE] = b"\xff\x25".ljust(
        STUB_SIZE, b"\xcc"
    )  # jmp *disp32(%rip); int3 to the end
    _relative32(image, offset + 2, place + 6, target)


def _instruction(image: bytearray, offset: int, clear: int, insert: int) -> None:
    """Replace the bits ``clear`` of a 4-byte instruction by ``insert``."""
    (word,) = struct.unpack_from("<I", image, offset)
    struct.pack_into("<I", image, offset, word & ~clear | insert)


def _adrp(image: bytearray, offset: int, place: int, target: int) -> None:
    pages = _signed((target >> 12) - (place >> 12), 21)
    _instruction(image, offset, 0x60FFFFE0, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)


def _low12(scale: int) -> Patch:
    """The low 12 bits of an address, for an ADD (scale 0) or a load of ``1 << scale`` bytes."""

    def patch(image: bytearray, offset: int, place: int, target: int) -> None:
        if target & ((1 << scale) - 1):
            raise LinkError(
                f"address {target:#x} is read as {1 << scale} aligned bytes and is not aligned to them"
            )
        _instruction(image, offset, 0xFFF << 10, (target & 0xFFF) >> scale << 10)

    return patch


def _branch26(image: bytearray, offset: int, place: int, target: int) -> None:
    _instruction(image, offset, 0x3FFFFFF, _signed(target - place, 28) >> 2 & 0x3FFFFFF)


def _aarch64_stub(image: bytearray, offset: int, place: int, target: int) -> None:
    # adrp x16, page; ldr x17, [x16, low]; br x17; nop.  x16 and x17 are the registers a call may destroy.
    struct.pack_into("<4I", image, offset, 0x90000010, 0xF9400211, 0xD61F0220, 0xD503201F)
    _adrp(image, offset, place, target)
    _low12(3)(image, offset + 4, place + 4, target)


X86_64 = Machine(
    code=62,
    name="x86-64",
    page=0x1000,
    absolute=1,  # R_X86_64_64
    relative=8,
    glob_dat=6,
    calls={4: _relative32},  # PLT32
    direct={2: _relative32, 24: _relative64},  # PC32, PC64
    via_got={9: _relative32, 41: _relative32, 42: _relative32},  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX
    stub=_x86_stub,
)

AARCH64 = Machine(
    code=183,
    name="aarch64",
    page=0x10000,  # kernels with 64 KiB pages exist
    absolute=257,  # R_AARCH64_ABS64
    relative=1027,
    glob_dat=1025,
    calls={282: _branch26, 283: _branch26},  # JUMP26, CALL26
    direct={
        260: _relative64,  # PREL64
        261: _relative32,  # PREL32
        275: _adrp,  # ADR_PREL_PG_HI21
        277: _low12(0),  # ADD_ABS_LO12_NC
        278: _low12(0),  # LDST8_ABS_LO12_NC
        284: _low12(1),  # LDST16
        285: _low12(2),  # LDST32
        286: _low12(3),  # LDST64
        299: _low12(4),  # LDST128
    },
    via_got={311: _adrp, 312: _low12(3)},  # ADR_GOT_PAGE, LD64_GOT_LO12_NC
    stub=_aarch64_stub,
)

MACHINES = {machine.code: machine for machine in (X86_64, AARCH64)}
