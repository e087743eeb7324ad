"""The engine of low latency: C code that does all the work for any number of hops in one call.

``alphamf.h`` describes the functions. Where the library could not be compiled when the package was
installed, `AVAILABLE` is False, and low latency cannot be used.
"""

import ctypes
import struct
from importlib.util import find_spec
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from alphamf.errors import AlphaMFError
from alphamf.inference.random import START, Key, generator
from alphamf.learnt.bands import COUNT as BANDS
from alphamf.learnt.causal import ALIGNMENT, CHAIN_ALONE, CausalNetwork, CausalNetworks, aligned
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Floats, round_to_bfloat16

MAGIC = b"alphamf5"
FRAME_HOPS = 8
"""Number of hops in a window, as in ``engine.c``."""

HEADER = "<8s 6i 6if 6if 6if f 4Q"
"""Binary layout of ``struct header`` in ``_parts.h``."""


def unit_columns(basis: Floats) -> Floats:
    """Return W, shape (context, columns, bins), with columns of mean one, rounded to bfloat16."""
    return round_to_bfloat16(basis / basis.mean(axis=(0, 2), keepdims=True))


def pack(dictionary: Dictionary, networks: CausalNetworks, seed: int) -> bytes:
    """Return the weights of an engine as bytes, in the layout that ``_parts.h`` describes."""
    frame = dictionary.frame
    stride = max(1, round(FRAME_HOPS * frame.hop_length / frame.n_fft))
    state = generator(seed, Key.CHAIN, START).bit_generator.state["state"]["state"]
    header = struct.pack(
        HEADER,
        MAGIC,
        *(dictionary.rate, frame.n_fft, dictionary.bins, dictionary.context),
        *(dictionary.basis.shape[1], stride),
        *(number for each in networks for number in _sizes(each)),
        dictionary.alpha,
        *(int(word) for word in state),
    )
    basis = dictionary.basis.reshape(dictionary.context, dictionary.bins, -1).swapaxes(1, 2)
    parts = [aligned(header), aligned(unit_columns(basis).tobytes())]
    return b"".join([*parts, *(each.packed for each in networks if each)])


def _sizes(network: CausalNetwork | None) -> tuple[float, ...]:
    """Return the numbers of ``struct sizes`` of ``_parts.h`` for a network; None: zeros and 1.0."""
    if network is None:
        return (0, 0, 0, 0, 0, 0, 1.0)
    sizes = network.sizes
    each = (sizes.width, sizes.hidden, sizes.blocks, sizes.maps, sizes.local, sizes.deep)
    return (*each, network.exponent)


REASONS = None, "samples were too large to be sound", "its state was no longer finite"
"""Reasons why an engine reset itself, by the number from ``alphamf_reset_reason``."""


class Hops(NamedTuple):
    """The output of an engine for some hops."""

    speech: Floats  # Shape (samples, channels); no samples for an engine's first four hops
    # gain, gain_std: gain and its standard deviation, shape (channels, bins, hops).
    gain: Floats
    gain_std: Floats
    activity: Floats  # Probability of speech in each hop, shape (hops,)


def library_file() -> str | None:
    """Return the file of the engine and of the plug-ins, or None if it was not compiled."""
    found = find_spec("alphamf.native._engine")
    return found.origin if found else None


def no_compiler(lost: str) -> AlphaMFError:
    """Return the error that `lost`, a feature, is missing because there was no C compiler."""
    return AlphaMFError(
        "alphamf was installed without a C compiler (GCC or Clang), so that there is no "
        f"{lost}; install a compiler, and alphamf again"
    )


def _open() -> Any:
    file = library_file()
    if file is None:
        return None
    try:
        library = ctypes.CDLL(file)
    except OSError:
        return None
    pointer, size, whole = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    types = {
        "create": (pointer, pointer, size, whole, whole, whole),
        "destroy": (None, pointer),
        "control": (None, pointer, ctypes.c_float, ctypes.c_float),
        "latency": (whole, pointer),
        "hops": (whole, pointer, pointer, pointer, whole, pointer, pointer, pointer),
        "hop": (whole, pointer),
        "bins": (whole, pointer),
        "acceptance": (ctypes.c_float, pointer),
        "level": (ctypes.c_float, pointer, whole),
        "reset_reason": (whole, pointer),
        "read": (whole, pointer, whole, pointer),
        "state_size": (size, pointer),
        "save": (None, pointer, pointer),
        "load": (None, pointer, pointer),
    }
    for name, (result, *arguments) in types.items():
        function = getattr(library, f"alphamf_{name}")
        function.restype, function.argtypes = result, arguments
    return library


_LIBRARY = _open()
AVAILABLE = _LIBRARY is not None


_IN_USE: WeakValueDictionary[tuple[int, ...], NDArray[np.uint8]] = WeakValueDictionary()
"""Weights in use, by ids of dictionary and networks, and seed; every engine holds what it uses."""


def _weights(dictionary: Dictionary, networks: CausalNetworks, seed: int) -> NDArray[np.uint8]:
    """Return an engine's weights, at an address that is a multiple of `ALIGNMENT`."""
    key = id(dictionary), *(id(each) for each in networks), seed
    if (weights := _IN_USE.get(key)) is None:
        packed = np.frombuffer(pack(dictionary, networks, seed), np.uint8)
        room = np.empty(len(packed) + ALIGNMENT, np.uint8)
        start = -room.ctypes.data % ALIGNMENT
        weights = _IN_USE[key] = room[start : start + len(packed)]
        weights[:] = packed
    return weights


class Engine:
    """An engine as in ``alphamf.h``, with gains of at least `least`; it can be pickled."""

    def __init__(
        self,
        rate: int,
        channels: int,
        dictionary: Dictionary,
        networks: CausalNetworks = CHAIN_ALONE,
        *,
        linked: bool,
        least: float,
        seed: int,
    ) -> None:
        if not AVAILABLE:
            raise no_compiler("low latency")
        named = {"linked": linked, "least": least, "seed": seed}
        self._given = (rate, channels, dictionary, networks), named
        self._channels, self._bins = channels, dictionary.bins
        self._weights = data = _weights(dictionary, networks, seed)
        self._engine = _LIBRARY.alphamf_create(
            data.ctypes.data, len(data), rate, channels, int(linked)
        )
        if not self._engine:
            raise AlphaMFError(
                f"the engine of low latency cannot be made for {channels} channels at {rate} Hz "
                f"with the dictionary {dictionary.name}: there is not enough memory for it"
            )
        _LIBRARY.alphamf_control(self._engine, 1.0, least)
        self.hop: int = _LIBRARY.alphamf_hop(self._engine)
        self.bins: int = _LIBRARY.alphamf_bins(self._engine)
        self.latency: int = _LIBRARY.alphamf_latency(self._engine)

    def __del__(self) -> None:
        if getattr(self, "_engine", None) and _LIBRARY:  # which goes first when Python ends
            _LIBRARY.alphamf_destroy(self._engine)

    def __getstate__(self) -> tuple[Any, bytes]:
        state = ctypes.create_string_buffer(_LIBRARY.alphamf_state_size(self._engine))
        _LIBRARY.alphamf_save(self._engine, state)
        return self._given, state.raw

    def __setstate__(self, state: tuple[Any, bytes]) -> None:
        (given, named), saved = state
        self.__init__(*given, **named)  # type: ignore[misc]
        _LIBRARY.alphamf_load(self._engine, saved)

    @property
    def acceptance(self) -> float:
        """Proportion of accepted moves of Phi in the last hop with sound; 1 before there is one."""
        return float(_LIBRARY.alphamf_acceptance(self._engine))

    @property
    def level(self) -> Floats:
        """Mean power of the bins in the last hop that was not silent, shape (channels, 1)."""
        each = [_LIBRARY.alphamf_level(self._engine, k) for k in range(self._channels)]
        return np.array(each, np.float32)[:, None]

    @property
    def reset_reason(self) -> str | None:
        """The reason why the engine last reset itself, or None if it never did."""
        return REASONS[_LIBRARY.alphamf_reset_reason(self._engine)]

    def read(self, *, bands: bool = False) -> Floats:
        """Return the inputs of the refiner, or of the network of bands, at the last hop of sound.

        |X|^2, gain, its standard deviation, variances of speech and noise: shape (5, channels, bins
        or bands), with |X|^2 and variances in units of `level`; zeros before the first such hop.
        """
        shape = 5, self._channels, BANDS if bands else self._bins
        found = np.zeros(shape, np.float32)
        if _LIBRARY.alphamf_read(self._engine, int(bands), found.ctypes.data):
            found[0] /= self.level
        return found

    def process(self, sound: Floats) -> Hops:
        """Process the whole hops of a sound, (samples, channels); ignore the samples after them."""
        sound = np.ascontiguousarray(sound, np.float32)
        hops = len(sound) // self.hop
        speech = np.empty((hops * self.hop, self._channels), np.float32)
        gains = np.empty((2, hops, self._channels, self.bins), np.float32)
        activity = np.empty(hops, np.float32)
        written = _LIBRARY.alphamf_hops(
            self._engine,
            *(sound.ctypes.data, speech.ctypes.data, hops),
            *(gains[0].ctypes.data, gains[1].ctypes.data, activity.ctypes.data),
        )
        gain, gain_std = (each.transpose(1, 2, 0) for each in gains)
        return Hops(speech[: written * self.hop], gain, gain_std, activity)
