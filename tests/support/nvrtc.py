"""Compiles CUDA sources with NVRTC, which needs neither a GPU nor a driver."""

from __future__ import annotations

from cuda.bindings import nvrtc


def compile_cubin(text: str, architecture: str) -> tuple[bytes, str]:
    """The program for an architecture such as "sm_90", and the compiler's log.

    Raises:
        AssertionError: it does not compile; the message is the log.
    """
    status, program = nvrtc.nvrtcCreateProgram(text.encode(), b"source.cu", 0, [], [])
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, status
    options = [f"--gpu-architecture={architecture}".encode(), b"--ptxas-options=-v"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    message = log.rstrip(b"\0 ").decode()
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, message
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    cubin = b" " * size
    nvrtc.nvrtcGetCUBIN(program, cubin)
    nvrtc.nvrtcDestroyProgram(program)
    return cubin, message
