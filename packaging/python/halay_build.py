# SPDX-License-Identifier: Apache-2.0
"""
Builds the wheel and the source distribution: what pip calls (PEP 517), and tools/wheel.

The wheel holds the package, the libraries and the programs as the build made them. Nothing in it depends on another
library than the C library's: sodium, jansson, yaml and zlib are linked statically, and oneDNN, BLAS and MPI are left
out. The programs answer by HTTP if libmicrohttpd has a static library that needs no other; Debian's needs TLS
libraries, tools/manylinux builds one that does not. The module for UCX is there if UCX's headers are; it takes the
system's UCX or pip's when it is opened. The modules for GPUs are there if nvcc and CUDA's libraries are: the engine's
needs the driver alone, the trainer's takes the system's cuBLASLt or pip's. A module for MPI is the system's
(HALAY_MODULE_PATH). A static library whose code has a fixed place, as Debian's jansson, goes into programs only; the
wheel carries the shared one beside the libraries that are linked with it. Where one of the four has no static library
the programs are linked with the shared one, and the wheel's tag says that it is for this machine only. CC is the
compiler, with its options (cc); CONFIGURE_OPTIONS are more options of configure.
"""

import base64
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from typing import Any, Callable, Dict, List, Optional, Tuple

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBRARIES = ["libhalay", "libhalay-tft"]
MODULES = ["libhalay-ucx.so", "libhalay-cuda.so", "libhalay-tft-cuda.so"]
PROGRAMS = ["launcher/halayrun", "halay-tft", "perf/halay-perf"]
STATIC = {"SODIUM": "sodium", "JANSSON": "jansson", "YAML": "yaml", "ZLIB": "z"}
NOTICES = {  # packages, for their licences
    "sodium": "libsodium-dev",
    "jansson": "libjansson-dev",
    "yaml": "libyaml-dev",
    "z": "zlib1g-dev",
    "microhttpd": "libmicrohttpd-dev",
}
CC = shlex.split(os.environ.get("CC") or "cc")
TOOLS = [CC[0], "make", "pkg-config", "objdump", "strip"]
ADVICE = """\
To build halay needs a C compiler, make, pkg-config, binutils, libsodium, Jansson, libyaml and zlib. On Debian:
    apt-get install gcc make pkg-config binutils libsodium-dev libjansson-dev libyaml-dev zlib1g-dev
A wheel of halay needs none of them."""
CONFIGURE = ["--prefix=/usr", "--libdir=/usr/lib", "--enable-static", "--with-pic"]
CONFIGURE += ["--without-onednn", "--without-blas", "--without-mpi", "--without-mpich", "--without-simgrid"]
CONFIGURE += ["--without-microhttpd", *shlex.split(os.environ.get("CONFIGURE_OPTIONS", ""))]
# What the wheel's libraries are found by: each other, and pip's cuBLASLt of CUDA 13 and 12.
FOLDERS = ["", "/../../nvidia/cu13/lib", "/../../nvidia/cublas/lib"]
CUBLAS = {"libcublasLt.so.13": "nvidia-cublas>=13,<14", "libcublasLt.so.12": "nvidia-cublas-cu12"}
METADATA = """\
Metadata-Version: 2.1
Name: halay
Version: {version}
Summary: Collective communication for training on CPUs, a launcher, a backend of torch.distributed, and forecasts
License: Apache-2.0
Requires-Python: >=3.9
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Provides-Extra: ucx
Requires-Dist: libucx-cu12; extra == "ucx"
{cublas}Provides-Extra: tft
Requires-Dist: pandas>=1.5; extra == "tft"
Description-Content-Type: text/markdown

{readme}"""
ENTRY_POINTS = """[torch.distributed.backends]
halay = halay.distributed:register
[torchcomms.backends]
halay = halay.torchcomms
"""


def version() -> str:
    """halay's, as configure.ac says."""
    with open(os.path.join(SOURCE, "configure.ac"), encoding="utf-8") as file:
        found = re.search(r"AC_INIT\(\[halay\], *\[([^]]+)\]", file.read())
    if not found:
        raise RuntimeError("configure.ac names no version")
    return found.group(1)


def metadata(modules: List[str]) -> str:
    cublas = ""
    for package in sorted({CUBLAS[name] for module in modules for name in needs(module) if name in CUBLAS}):
        cublas = f'Provides-Extra: cuda\nRequires-Dist: {package}; extra == "cuda"\n'
    with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
        return METADATA.format(version=version(), cublas=cublas, readme=file.read())


def run(*words: str, cwd: str) -> None:
    """Run a step of the build; if it fails, pip shows what it said, and then this."""
    if subprocess.run(words, cwd=cwd).returncode:
        raise SystemExit(f"halay: '{words[0]}' failed, as said above.\n{ADVICE}")


def check_tools() -> None:
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        raise SystemExit(f"halay: there is no {', '.join(missing)} in PATH.\n{ADVICE}")


def static_path(library: str) -> Optional[str]:
    name = f"lib{library}.a"  # which the compiler prints as it is if there is no such file
    said = subprocess.run([*CC, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
    return said if said != name else None


def has_static(library: str) -> bool:
    return static_path(library) is not None


def make(build: str, *words: str) -> None:
    jobs = subprocess.run([os.path.join(SOURCE, "tools/jobs")], capture_output=True, text=True, check=True).stdout
    run("make", "-s", f"-j{jobs.strip()}", *words, cwd=build)


def is_shareable(library: str) -> bool:
    """Whether the static library goes into a shared one: it may lie anywhere, and what it calls is found."""
    with tempfile.TemporaryDirectory() as scratch:
        with open(os.path.join(scratch, "map"), "w", encoding="utf-8") as file:
            file.write("{ local: *; };")
        link = [*CC, "-shared", "-o", "all.so", "-Wl,-z,text,--version-script=map,--whole-archive"]
        link += [f"-l:lib{library}.a", "-Wl,--no-whole-archive"]
        return subprocess.run(link, cwd=scratch, capture_output=True).returncode == 0


def is_alone(library: str, function: str) -> bool:
    """Whether a program with that function of the static library needs no other library."""
    program = f"int {function}(void); int main(void) {{ return {function}(); }}"
    with tempfile.TemporaryDirectory() as scratch:
        link = [*CC, "-xc", "-", "-o", "all", f"-l:lib{library}.a", "-pthread"]
        return subprocess.run(link, cwd=scratch, input=program, text=True, capture_output=True).returncode == 0


def configure(build: str, fits: Callable[[str], bool], *options: str) -> None:
    """Prepare the folder build, which may be there already, with those static libraries that fit."""
    os.makedirs(build, exist_ok=True)
    if not os.path.exists(os.path.join(SOURCE, "configure")):
        run("./autogen.sh", cwd=SOURCE)
    if not os.path.exists(os.path.join(build, "Makefile")):
        libraries = [f"{name}_LIBS=-l:lib{lib}.a" for name, lib in STATIC.items() if fits(lib)]
        run(os.path.join(SOURCE, "configure"), "-q", *CONFIGURE, *options, *libraries, cwd=build)


def make_libraries(build: str, folder: str) -> Tuple[List[str], List[str]]:
    """Make the libraries and modules, as installed in a folder: they find those beside them, and not the build's."""
    path = ":".join(r"\$$ORIGIN" + name for name in FOLDERS)
    for targets in ("install-libLTLIBRARIES", "install-pkglibLTLIBRARIES"):
        make(build, targets, f"DESTDIR={folder}", f"LDFLAGS=-Wl,-rpath,{path}")
    modules = [os.path.join(folder, "usr/lib/halay", name) for name in MODULES]
    for missing in [module for module in modules if not os.path.exists(module)]:
        print(f"halay: a wheel without {os.path.basename(missing)}, as configure said above", file=sys.stderr)
        modules.remove(missing)
    return [os.path.join(folder, f"usr/lib/{name}.so.1") for name in LIBRARIES], modules


def needs(path: str) -> List[str]:
    """The libraries that a file is linked with."""
    said = subprocess.run(["objdump", "-p", path], check=True, capture_output=True, text=True).stdout
    return re.findall(r"NEEDED +(\S+)", said)


def libc_version(paths: List[str]) -> Tuple[int, int]:
    """The oldest GNU C library that has all symbols these files want."""
    newest = (2, 28)  # what older ones would need has not been tried
    for path in paths:
        said = subprocess.run(["objdump", "-T", path], check=True, capture_output=True, text=True).stdout
        for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", said):
            newest = max(newest, (int(major), int(minor)))
    return newest


def foreign(paths: List[str]) -> List[str]:
    """The libraries that these files are linked with beside the C library's and libhalay."""
    own = re.compile(r"(libc|libm|libpthread|libdl|librt|ld-linux[-\w]*|libhalay)\.so")
    return sorted({name for path in paths for name in needs(path) if not own.match(name)})


def found(library: str, user: str) -> str:
    """Where the loader finds a library that this file is linked with."""
    said = subprocess.run(["ldd", user], check=True, capture_output=True, text=True).stdout
    place = re.search(rf"{re.escape(library)} => (\S+)", said)
    if not place:
        raise SystemExit(f"halay: {library}, with which {user} is linked, is nowhere")
    return place.group(1)


def tag_of(paths: List[str], modules: List[str]) -> str:
    """Which machines these files run on, of which modules may be of no use; prints why, if it is this one only."""
    carried = {os.path.basename(path) for path in paths}
    others = [name for name in foreign(paths) if name not in carried]
    if others:
        print(f"halay: a wheel for this machine only, since it is linked with {', '.join(others)}", file=sys.stderr)
        return f"py3-none-linux_{platform.machine()}"
    major, minor = libc_version([*paths, *modules])
    return f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"


class Wheel:
    """A wheel being written: its files, and the record of them."""

    def __init__(self, path: str) -> None:
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.record: List[str] = []

    def add(self, name: str, data: bytes, mode: int = 0o644) -> None:
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same bytes from the same files
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}\n")

    def add_file(self, name: str, path: str, mode: int = 0o644) -> None:
        with open(path, "rb") as file:
            self.add(name, file.read(), mode)

    def close(self, info: str) -> None:
        name = f"{info}/RECORD"
        self.add(name, ("".join(self.record) + f"{name},,\n").encode())
        self.zip.close()


def stripped(path: str, folder: str) -> str:
    to = os.path.join(folder, os.path.basename(path))
    run("strip", "--strip-unneeded", "-o", to, path, cwd=folder)
    return to


def package_files() -> List[Tuple[str, str]]:
    """The package's files: their names as they are imported, and where they are."""
    package = os.path.join(SOURCE, "python")
    found = []
    for folder, folders, files in os.walk(os.path.join(package, "halay")):
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", "lib"))
        for file in sorted(files):
            path = os.path.join(folder, file)
            if file.endswith((".py", ".pyi")) or file == "py.typed":
                found.append((os.path.relpath(path, package), path))
    return found


def install(folder: str) -> None:
    """Copy the package and its metadata into that folder, for a system's packages: its libraries are the system's."""
    info = os.path.join(folder, f"halay-{version()}.dist-info")
    os.makedirs(info)
    for name, path in package_files():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        shutil.copyfile(path, os.path.join(folder, name))
    for name, text in (("METADATA", metadata([])), ("entry_points.txt", ENTRY_POINTS)):
        with open(os.path.join(info, name), "w", encoding="utf-8") as file:
            file.write(text)


def add_notices(wheel: Wheel, info: str) -> None:
    """Add the licences of what is linked statically, which lie where the libraries were installed."""
    for library, package in NOTICES.items():
        path = os.path.realpath(static_path(library) or "/")
        path = re.sub(r"/lib/([^/]+/)?[^/]+$", f"/share/doc/{package}/copyright", path)
        if os.path.isfile(path):
            wheel.add_file(f"{info}/licenses/{package}", path)


def add_info(wheel: Wheel, info: str, tag: str, modules: List[str]) -> None:
    wheel.add(f"{info}/METADATA", metadata(modules).encode())
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: halay\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.add(f"{info}/entry_points.txt", ENTRY_POINTS.encode())
    wheel.add_file(f"{info}/licenses/LICENSE", os.path.join(SOURCE, "LICENSE"))
    add_notices(wheel, info)


def write_wheel(folder: str, libraries: List[str], modules: List[str], programs: List[str]) -> str:
    """Write the wheel with these files into the folder; return its name. Libraries go by the names that they have."""
    with tempfile.TemporaryDirectory() as scratch:
        libraries = [stripped(library, scratch) for library in libraries]
        modules = [stripped(module, scratch) for module in modules]
        programs = [stripped(program, scratch) for program in programs]
        tag = tag_of([*libraries, *programs], modules)
        name, info = f"halay-{version()}-{tag}.whl", f"halay-{version()}.dist-info"
        wheel = Wheel(os.path.join(folder, name))
        for file, path in package_files():
            wheel.add_file(file, path)
        for library in [*libraries, *modules]:
            wheel.add_file(f"halay/lib/{os.path.basename(library)}", library, 0o755)
        for program in programs:
            wheel.add_file(f"halay-{version()}.data/scripts/{os.path.basename(program)}", program, 0o755)
        add_info(wheel, info, tag, modules)
        wheel.close(info)
    return name


def build_wheel(
    wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None, metadata_directory: Optional[str] = None
) -> str:
    """Write the wheel into that folder and return its name. The setting build-dir names a folder to compile in."""
    check_tools()
    with tempfile.TemporaryDirectory() as scratch:
        build = os.path.abspath((config_settings or {}).get("build-dir", os.path.join(scratch, "build")))
        configure(build, lambda library: has_static(library) and is_shareable(library))
        libraries, modules = make_libraries(build, scratch)
        libraries += [found(name, user) for user in libraries for name in foreign([user])]
        build = os.path.join(build, "programs")
        http = ["--with-microhttpd", "LIBS=-pthread"] if is_alone("microhttpd", "MHD_start_daemon") else []
        configure(build, has_static, "--disable-shared", *http)
        make(build, *PROGRAMS, *(["MICROHTTPD_LIBS=-l:libmicrohttpd.a"] if http else []))
        programs = [os.path.join(build, program) for program in PROGRAMS]
        return write_wheel(wheel_directory, libraries, modules, programs)


def build_sdist(sdist_directory: str, config_settings: Optional[Dict[str, Any]] = None) -> str:
    """The tarball of `make dist`, with the file that makes it a source distribution. Needs the tools of a release."""
    root = f"halay-{version()}"
    with tempfile.TemporaryDirectory() as scratch:
        if not os.path.exists(os.path.join(SOURCE, "configure")):
            run("./autogen.sh", cwd=SOURCE)
        run(os.path.join(SOURCE, "configure"), "-q", cwd=scratch)
        run("make", "-s", "distdir", cwd=scratch)
        folder = os.path.join(scratch, root)
        with open(os.path.join(folder, "PKG-INFO"), "w", encoding="utf-8") as file:
            file.write(metadata([]))
        with tarfile.open(os.path.join(sdist_directory, f"{root}.tar.gz"), "w:gz") as tar:
            tar.add(folder, root)
        shutil.rmtree(folder, ignore_errors=True)
    return f"{root}.tar.gz"
