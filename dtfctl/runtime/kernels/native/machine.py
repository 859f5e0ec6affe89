"""llvmlite, if it is there: machine code for this processor, callable from Python without a wrapper in between.

A compiled region is a built-in function (`METH_FASTCALL`) that takes arrays as they are and looks itself at what they
are: their type, shape and order. Addresses of the interpreter's are in a table that it gets as `self`, so the code
itself has none and is kept, by what it was made from, in a folder only this user can write to. `DTF_NATIVE=1` turns it
on.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import logging
import os
import platform
import sys
import sysconfig
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl import later
from dtfctl.durable import whole_file
from dtfctl.runtime.kernels.compiled.jit import not_private

log = logging.getLogger(__name__)

# What is made otherwise from the same text begins with another number.
_FORMAT = b"1"
_METH_FASTCALL = 0x80
# Where a numpy array has what: its own memory, and offsets in bytes that numpy's C ABI fixes for 64 bits.
DATA, RANK, DIMENSIONS, DESCRIPTOR, FLAGS = 16, 24, 32, 56, 64
CONTIGUOUS, WRITABLE = 0x101, 0x400
# What the table has at which place; data types follow.
ARRAY_TYPE, TRUE, FALSE, INCREF, SAVE_THREAD, RESTORE_THREAD, DTYPES = range(7)
TYPES = ("f4", "f8", "i4", "i8", "b1")
# LLVM is asked by one thread at a time.
_LOCK = threading.Lock()


def is_available() -> bool:
    """Tell whether regions are to be compiled; nothing is imported for that. On a host llvmlite may come later."""
    return is_asked_for() and can_compile()


def is_asked_for() -> bool:
    """Tell whether the environment asks for regions."""
    return os.environ.get("DTF_NATIVE") == "1"


def can_compile() -> bool:
    """Tell whether there is what compiles regions."""
    return later.arrived("fast") and _is_usable()


@lru_cache(1)
def _is_usable() -> bool:
    return (
        sys.implementation.name == "cpython"
        and ctypes.sizeof(ctypes.c_void_p) == 8
        and sys.byteorder == "little"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and not hasattr(sys, "getobjects")
        and importlib.util.find_spec("llvmlite") is not None
        and _lies_as_expected()
    )


def _lies_as_expected() -> bool:
    """Tell whether arrays have what compiled code reads where it reads it."""
    array = np.zeros((3, 5), np.float32)
    at = id(array)
    word = ctypes.c_void_p.from_address
    return (
        word(at + DATA).value == array.ctypes.data
        and ctypes.c_int.from_address(at + RANK).value == 2
        and list((ctypes.c_int64 * 2).from_address(word(at + DIMENSIONS).value or at)) == [3, 5]
        and word(at + DESCRIPTOR).value == id(array.dtype)
        and ctypes.c_int.from_address(at + FLAGS).value & (CONTIGUOUS | WRITABLE) == CONTIGUOUS | WRITABLE
    )


class _Table(np.ndarray[Any, Any]):
    """What a compiled function gets as `self`; it holds what the function is made of."""

    held: Any = None


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def load(text: str, entry: str) -> Callable[..., bool]:
    """Compile LLVM's text and return its function `entry`, which has the signature of a built-in one.

    Raises:
        RuntimeError: LLVM refuses the text.
    """
    with _LOCK:
        llvm, machine = _llvm()
        kept = _kept_at(text, machine)
        code = _read(kept)
        if code is None:
            code = _compile(llvm, machine, text)
            _keep(kept, code)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        address = engine.get_function_address(entry)
    method = _MethodDef(b"region", address, _METH_FASTCALL, None)
    table = np.array(_addresses(), np.int64).view(_Table)
    table.held = engine, method
    made: Callable[..., bool] = _new_function(ctypes.byref(method), table, None)
    return made


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]


@lru_cache(1)
def _addresses() -> list[int]:
    def of(name: str) -> int:
        return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0

    functions = [of("Py_IncRef"), of("PyEval_SaveThread"), of("PyEval_RestoreThread")]
    return [id(np.ndarray), id(True), id(False), *functions, *(id(np.dtype(t)) for t in TYPES)]


@lru_cache(1)
def _llvm() -> tuple[Any, Callable[[], Any]]:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    name, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()

    def machine() -> Any:
        return target.create_target_machine(cpu=name, features=features, opt=3, reloc="pic", codemodel="jitdefault")

    return binding, machine


def _compile(llvm: Any, machine: Callable[[], Any], text: str) -> bytes:
    made = machine()
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(made, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = made.emit_object(module)
    return code


# Kept code -----------------------------------------------------------------------------------------------------------


def _kept_at(text: str, machine: Callable[[], Any]) -> Path | None:
    folder = _folder()
    if folder is None:
        return None
    import llvmlite
    from llvmlite import binding

    of = hashlib.sha256(_FORMAT)
    for part in (llvmlite.__version__, platform.machine(), binding.get_host_cpu_name()):
        of.update(part.encode() + b"\0")
    of.update(binding.get_host_cpu_features().flatten().encode() + b"\0" + text.encode())
    return folder / f"{of.hexdigest()[:40]}.o"


@lru_cache(1)
def _folder() -> Path | None:
    """Find where code may be kept: what is read there is run, so the folder has to be this user's alone."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dtfctl" / "native"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        why = not_private(folder)
    except (OSError, RuntimeError) as e:
        why = str(e)
    if why:
        log.warning("regions are compiled anew by each process, as %s %s", folder, why)
        return None
    return folder


def _read(path: Path | None) -> bytes | None:
    """Read kept code: its digest, and what it is of; None where there is none, or half of one."""
    try:
        data = path.read_bytes() if path is not None else b""
    except OSError:
        return None
    digest, code = data[:32], data[32:]
    return code if code and hashlib.sha256(code).digest() == digest else None


def _keep(path: Path | None, code: bytes) -> None:
    if path is None:
        return
    try:
        with whole_file(path) as file:
            file.write(hashlib.sha256(code).digest() + code)
    except OSError as e:
        log.warning("regions cannot be kept in %s: %s", path.parent, e)
