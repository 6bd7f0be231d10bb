"""PJRT plug-ins for the processor that tests run: builds of XLA that others have packed into
wheels, which are looked for in the folder PARACORD_PJRT_WHEELS, and in build/plugins."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.path.join(ROOT, "build", "plugins")

# The version of the API, the package, the wheel's platform and SHA-256, and the library in it.
PLUGINS = [
    ("0.81", "xla-cpu-pjrt==0.0.1", "xla_cpu_pjrt-0.0.1-py3-none-manylinux_2_27_x86_64.whl",
     "55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc",
     "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"),
    ("0.106", "fastatomstruct-xla-cpu==2026.6.23",
     "fastatomstruct_xla_cpu-2026.6.23-py3-none-manylinux_2_27_x86_64.whl",
     "88b1c430b341b4bea40a37420311c9c75db6e22b46d2ff95b6986577bee6afe9",
     "fastatomstruct_xla_cpu/libpjrt_cpu.so"),
    ("0.115", "lammps-jax-pjrt-cpu==0.11.2",
     "lammps_jax_pjrt_cpu-0.11.2-py3-none-manylinux_2_27_x86_64.whl",
     "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1",
     "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"),
]


def find(wheel, package, download=False):
    """The path of a wheel, or None."""
    folders = [os.environ.get("PARACORD_PJRT_WHEELS", ""), CACHE]
    if download and not any(os.path.exists(os.path.join(f, wheel)) for f in folders if f):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--dest", CACHE, package], check=False)
    for folder in filter(None, folders):
        if os.path.exists(os.path.join(folder, wheel)):
            return os.path.join(folder, wheel)
    return None


def newest():
    """The newest plug-in whose wheel is here, as the arguments of unpack; None if there is none."""
    for _, package, name, sha256, library in reversed(PLUGINS):
        wheel = find(name, package)
        if wheel is not None:
            return wheel, sha256, library
    return None


def unpack(wheel, sha256, library, folder):
    """The path of the plug-in's library, which it writes into the folder."""
    with open(wheel, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    if found != sha256:
        raise SystemExit(f"{wheel} has the SHA-256 {found}, and must have {sha256}")
    with zipfile.ZipFile(wheel) as archive, archive.open(library) as source:
        path = os.path.join(folder, os.path.basename(library))
        with open(path, "wb") as to:
            shutil.copyfileobj(source, to)
    return path
