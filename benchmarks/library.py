"""Build libalphamf, the engine as a C library, for several systems, by Zig's C compiler.

For example::

    pip install ziglang
    python -m benchmarks.library -o build/libalphamf
    python -m benchmarks.library linux-aarch64 wasm

Each target gets a folder with ``include/alphamf.h``, a shared and a static library, and files for
pkg-config and CMake; ``weights/`` gets the two files of weights. The command fails if a library
does not export exactly the functions of ``alphamf.h``.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from alphamf.denoising.weights import find_online
from alphamf.errors import AlphaMFError
from alphamf.native.engine import pack
from benchmarks.report import ROOT, run_main

NATIVE = ROOT / "alphamf" / "native"
SOURCES = (*sorted(path for path in NATIVE.glob("_*.c")), NATIVE / "engine.c")
FLAGS = "-O3 -g0 -fPIC -fno-math-errno -fno-trapping-math -ffp-contract=fast".split()
FLAGS.append("-fvisibility=hidden")
# Number of the ABI, part of the library's name: a change that breaks programs raises it
ABI, VERSION = 1, "0.1.0"


class Target(NamedTuple):
    """A system and processor that the library is built for."""

    zig: str  # Zig's name of the target
    file: str  # Name of the shared library
    compile: tuple[str, ...] = ()  # Options of the compiler
    link: tuple[str, ...] = ()  # Options of the linker


ELF = "-shared", f"-Wl,-soname,libalphamf.so.{ABI}", "-lm"
SO = f"libalphamf.so.{ABI}"
MACH = "-shared", f"-Wl,-install_name,@rpath/libalphamf.{ABI}.dylib"
WASM = "-mexec-model=reactor", "-Wl,--export=malloc", "-Wl,--export=free"

TARGETS = {
    "linux-x86_64": Target("x86_64-linux-gnu.2.17", SO, link=ELF),
    "linux-x86_64-v3": Target("x86_64-linux-gnu.2.17", SO, ("-mcpu=x86_64_v3",), ELF),
    "linux-aarch64": Target("aarch64-linux-gnu.2.17", SO, link=ELF),
    "musl-x86_64": Target("x86_64-linux-musl", SO, link=ELF),
    "musl-aarch64": Target("aarch64-linux-musl", SO, link=ELF),
    "windows-x86_64": Target("x86_64-windows-gnu", f"alphamf-{ABI}.dll", link=("-shared",)),
    "macos-x86_64": Target("x86_64-macos.11.0", f"libalphamf.{ABI}.dylib", link=MACH),
    "macos-aarch64": Target("aarch64-macos.11.0", f"libalphamf.{ABI}.dylib", link=MACH),
    "android-aarch64": Target(
        "aarch64-linux-musl",
        "libalphamf.so",
        link=("-shared", "-nostdlib", "-Wl,-soname,libalphamf.so", "-Wl,-z,max-page-size=16384"),
    ),
    "wasm": Target("wasm32-wasi", "alphamf.wasm", ("-msimd128",), WASM),
}

# Functions of Android's own libraries that the engine needs; Zig has no copy of these libraries
BIONIC = {
    "libc.so": "calloc free getenv memcpy memmove memset strcmp memcmp".split(),
    "libm.so": "sin cos exp expm1 log1p rint ceil sqrtf sincos".split(),
}

PKG_CONFIG = """prefix=${{pcfiledir}}/../..
Name: alphamf
Description: Noise removal from speech in real time
Version: {version}
Libs: -L${{prefix}}/lib -lalphamf
Libs.private: -lm
Cflags: -I${{prefix}}/include
"""
CMAKE = """set(alphamf_VERSION {version})
get_filename_component(alphamf_lib "${{CMAKE_CURRENT_LIST_DIR}}/../.." ABSOLUTE)
foreach(kind SHARED STATIC)
  string(TOLOWER alphamf::${{kind}} name)
  add_library(${{name}} ${{kind}} IMPORTED)
  set_target_properties(${{name}} PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${{alphamf_lib}}/../include")
endforeach()
set_property(TARGET alphamf::shared PROPERTY IMPORTED_LOCATION "${{alphamf_lib}}/{shared}")
set_property(TARGET alphamf::static PROPERTY IMPORTED_LOCATION "${{alphamf_lib}}/libalphamf.a")
if(WIN32)
  set_property(TARGET alphamf::shared PROPERTY IMPORTED_IMPLIB "${{alphamf_lib}}/alphamf.lib")
else()
  set_property(TARGET alphamf::static PROPERTY INTERFACE_LINK_LIBRARIES m)
endif()
"""


def functions() -> set[str]:
    """Return the names of the functions of ``alphamf.h``."""
    header = (NATIVE / "alphamf.h").read_text(encoding="utf-8")
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    return set(re.findall(r"\b(alphamf_\w+)\(", code))


def exported(file: Path) -> set[str]:
    """Return the names of the functions that a stripped library exports."""
    return {name.decode() for name in re.findall(rb"alphamf_[a-z_]+", file.read_bytes())}


def run(*words: object) -> None:
    """Run a command, or raise CalledProcessError if it fails."""
    subprocess.run([*map(str, words)], check=True)


def build(name: str, folder: Path) -> Path:
    """Build the library of a target in a folder, and return the path of the shared library."""
    target = TARGETS[name]
    zig = sys.executable, "-m", "ziglang"
    shutil.rmtree(folder, ignore_errors=True)
    lib, work = folder / "lib", folder / "objects"
    for each in (lib / "pkgconfig", lib / "cmake" / "alphamf", folder / "include", work):
        each.mkdir(parents=True)
    objects = []
    for source in SOURCES:
        objects.append(work / f"{source.stem}.o")
        compiler = *zig, "cc", "-target", target.zig, *FLAGS, *target.compile
        run(*compiler, "-c", source, "-o", objects[-1])
    link = [*target.link]
    if name == "wasm":
        link += [f"-Wl,--export={each}" for each in sorted(functions())]
    if name.startswith("windows"):  # what it exports, and the library to link against
        link += [f"-Wl,--out-implib,{lib / 'alphamf.lib'}", str(work / "alphamf.def")]
        (work / "alphamf.def").write_text("\n".join(["EXPORTS", *sorted(functions()), ""]))
    if name.startswith("android"):
        link += bionic(zig, target.zig, work)
    shared = lib / target.file
    run(*zig, "cc", "-target", target.zig, *target.compile, "-s", *link, *objects, "-o", shared)
    run(*zig, "ar", "rcs", lib / "libalphamf.a", *objects)
    if target.file.endswith((".so", SO, ".dylib")) and f".{ABI}" in target.file:
        (lib / target.file.replace(f".{ABI}", "")).symlink_to(target.file)
    shutil.rmtree(work)
    shutil.copy(NATIVE / "alphamf.h", folder / "include")
    (lib / "pkgconfig" / "alphamf.pc").write_text(PKG_CONFIG.format(version=VERSION))
    made = CMAKE.format(version=VERSION, shared=target.file)
    (lib / "cmake" / "alphamf" / "alphamf-config.cmake").write_text(made)
    if exported(shared) != functions():
        wrong = sorted(exported(shared) ^ functions())
        raise AlphaMFError(f"{shared} does not export what alphamf.h has: {wrong}")
    return shared


def bionic(zig: tuple[str, ...], target: str, folder: Path) -> list[Path]:
    """Build empty libraries with the names and functions of Android's, to link against."""
    made = []
    for name, functions_of in BIONIC.items():
        source = folder / f"{name}.c"
        source.write_text("".join(f"void {each}(void) {{}}\n" for each in functions_of))
        made.append(folder / name)
        words = "-shared", "-nostdlib", "-fno-builtin", f"-Wl,-soname,{name}", "-w"
        run(*zig, "cc", "-target", target, *words, source, "-o", made[-1])
    return made


def write_weights(folder: Path) -> list[Path]:
    """Write the weights for less than 16 kHz, and for 16 kHz or more; return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for rate, name in ((8000, "8k"), (48000, "16k")):  # at 48 kHz with the network of the bands
        found = find_online(rate)
        made.append(folder / f"alphamf-{name}.weights")
        made[-1].write_bytes(pack(found.dictionary, found.online, 0))
    return made


def main(
    targets: Annotated[Sequence[str], TARGETS] = (), *, output: Path = Path("build/libalphamf")
) -> None:
    """Build some or all targets, and print a row of a Markdown table for each target."""
    write_weights(output / "weights")
    print("| target | file | kB |\n|---|---|---|")
    for name in targets or TARGETS:
        shared = build(name, output / name)
        print(f"| {name} | `{shared.name}` | {shared.stat().st_size / 1000:.0f} |", flush=True)


if __name__ == "__main__":
    run_main(main)
