#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recipes of jobs/packaging are Python that these programs can read, and name every library that `make deps` installs.

  recipes.py SOURCE_FOLDER

EasyBuild and Spack need not be there: their recipes are run with the names that they give them.
"""

import re
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

# Debian's package: Spack's, EasyBuild's. What a compiler, a launcher or the demo brings is no library of the program.
LIBRARIES = {
    "libopenmpi-dev": ("mpi", "foss"), "libhdf5-openmpi-dev": ("hdf5", "HDF5"),
    "libboost-program-options-dev": ("boost", "Boost"), "libdnnl-dev": ("onednn", "libdnnl-dev"),
    "nlohmann-json3-dev": ("nlohmann-json", "nlohmann_json"), "libxxhash-dev": ("xxhash", "xxHash"),
    "libicu-dev": ("icu4c", "ICU"), "libonig-dev": ("oniguruma", "libonig-dev"), "libfmt-dev": ("fmt", "fmt"),
    "libprotozero-dev": ("protozero", "protozero"), "libzstd-dev": ("zstd", "zstd"), "libedit-dev": ("libedit", "libedit"),
    "liburing-dev": ("liburing", "liburing-dev"), "libyaml-cpp-dev": ("yaml-cpp", "yaml-cpp"),
    "liblapacke-dev": ("netlib-lapack", "foss"), "libblas-dev": ("netlib-lapack", "foss"),
    "cmake": ("cmake", "CMake"), "ninja-build": ("ninja", "Ninja"),
}
OTHERS = {"g++", "openmpi-bin", "libboost-test-dev", "ocl-icd-opencl-dev", "wordnet-base", "python3-h5py",
          "python3-matplotlib", "shellcheck"}


def spack_names(path):
    asked = []
    package = ModuleType("spack.package")
    for name in ("license", "version", "generator", "conflicts", "variant"):
        setattr(package, name, MagicMock())
    package.depends_on = lambda spec, **_: asked.append(re.match(r"[\w-]+", spec)[0])
    package.CMakePackage, package.CudaPackage = type("CMakePackage", (), {}), type("CudaPackage", (), {})
    package.__all__ = [name for name in vars(package) if not name.startswith("_")]
    sys.modules |= {"spack": ModuleType("spack"), "spack.package": package}
    names = {}
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), names)
    names["Sft"].cmake_args(MagicMock())
    return set(asked)


def easybuild_names(path):
    names = {"SOURCELOWER_TAR_GZ": "%(namelower)s-%(version)s.tar.gz"}
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), names)
    system = [name for item in names["osdependencies"] for name in ([item] if isinstance(item, str) else item)]
    if path.stem != f"{names['name']}-{names['version']}-{names['toolchain']['name']}-{names['toolchain']['version']}":
        raise ValueError(f"{path.name} is not named after what is in it")
    return {name for name, _ in names["dependencies"] + names["builddependencies"]} | {names["toolchain"]["name"], *system}


def main():
    source = Path(sys.argv[1])
    makefile = (source / "Makefile").read_text(encoding="utf-8")
    packages = re.search(r"^PACKAGES := ((?:.*\\\n)*.*)$", makefile, re.MULTILINE)[1].replace("\\\n", " ").split()
    spack = spack_names(source / "jobs/packaging/spack_package.py")
    easybuild = easybuild_names(next((source / "jobs/packaging").glob("*.eb")))
    wrong = [f"what is {name} in the recipes? Tell tests/packaging/recipes.py" for name in packages
             if name not in LIBRARIES and name not in OTHERS]
    for name in packages:
        if name in LIBRARIES:
            wrong += [f"{recipe} lacks {wanted} ({name})" for recipe, wanted, known in
                      zip(("Spack", "EasyBuild"), LIBRARIES[name], (spack, easybuild)) if wanted not in known]
    version = re.search(r"project\(\s*sft\s+VERSION\s+([\d.]+)", (source / "CMakeLists.txt").read_text(encoding="utf-8"))
    if version and not list((source / "jobs/packaging").glob(f"sft-{version[1]}-*.eb")):
        wrong.append(f"no recipe of EasyBuild is of version {version[1]}")
    for line in wrong:
        print("WRONG", line)
    print(f"{len(packages)} packages, {len(spack)} of Spack, {len(easybuild)} of EasyBuild")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
