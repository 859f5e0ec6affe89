"""Every CUDA source compiles for the GPUs we name, without a GPU; its numbers are checked in test_cuda_kernels."""

from __future__ import annotations

import re

import pytest

from dtfctl.runtime.kernels.cuda.sources import VARIANTS, source_text

pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings and nvidia-cuda-nvrtc (the dev extra)")

from tests.support.nvrtc import compile_cubin

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
# One variant of each source for every architecture, and every variant for one.
CASES = [
    (name, *variant, architecture)
    for name, variants in VARIANTS.items()
    for architecture in ARCHITECTURES
    for variant in (variants if architecture == "sm_90" else variants[:1])
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "element", "index", "architecture"), CASES)
def test_compiles_without_spills(name: str, element: str, index: str, architecture: str) -> None:
    cubin, log = compile_cubin(source_text(name, element, index), architecture)
    assert cubin[:4] == b"\x7fELF"
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    assert spills, f"the log says nothing about spills: {log}"
    assert set(spills) == {("0", "0")}, log


def test_every_source_has_variants() -> None:
    from importlib import resources

    files = resources.files("dtfctl.runtime.kernels.cuda").iterdir()
    assert {f.name.removesuffix(".cu") for f in files if f.name.endswith(".cu")} == set(VARIANTS)


def test_errors_are_seen() -> None:
    with pytest.raises(AssertionError, match="undeclared_name"):
        compile_cubin(source_text("conv", "float32") + "\n__global__ void f(int* x) { *x = undeclared_name; }", "sm_90")
