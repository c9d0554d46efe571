# SPDX-License-Identifier: Apache-2.0
# Recipe of Spack: packages/sft/package.py of a repository of yours (`spack repo create`), then `spack install sft`.
from spack.package import *


class Sft(CMakePackage, CudaPackage):
    """Supervised fine-tuning of decoder language models on a mesh of MPI ranks."""

    license("Apache-2.0")
    version("main", branch="main", preferred=True)

    depends_on("cxx", type="build")
    depends_on("cmake@3.24:", type="build")
    depends_on("ninja", type="build")
    depends_on("mpi@3.1:")
    depends_on("hdf5@1.10:")
    depends_on("boost@1.74: +program_options")
    depends_on("onednn@2.6:")
    depends_on("nlohmann-json@3.11:")
    depends_on("fmt@9:")
    depends_on("xxhash")
    depends_on("icu4c")
    depends_on("oniguruma")
    depends_on("protozero")
    depends_on("yaml-cpp@0.7:")
    depends_on("zstd")
    depends_on("libedit")
    depends_on("netlib-lapack@3.9: +lapacke")
    depends_on("liburing")
    depends_on("nccl@2.26:", when="+cuda")

    generator("ninja")
    conflicts("%gcc@:11", msg="sft needs C++20 as GCC 12 has it")

    def cmake_args(self):
        return [self.define_from_variant("SFT_CUDA", "cuda"), self.define("SFT_BUILD_TESTS", False)]
