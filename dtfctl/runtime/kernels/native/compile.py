"""A process that makes sketches of regions images, for the one that started it (compiler.py).

It reads a sketch a line, and writes of each a line of JSON (`Compiled.packed`) and the image's bytes; before those of
another plan comes an empty line. It lets others have the cores first, and ends with its standard input or output.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

from dtfctl.runtime.kernels.native import machine, tape_code
from dtfctl.runtime.kernels.native.generic import Generics
from dtfctl.runtime.kernels.native.image import Image, image_of
from dtfctl.runtime.kernels.native.kept import Compiled, Phase
from dtfctl.runtime.kernels.native.lowerable import Lowerable
from dtfctl.runtime.kernels.native.sketch import Sketch
from dtfctl.runtime.kernels.native.tape import ORDER, TapeOrder

# It gets a quarter of a core that a step wants too. With less, a host whose cores are all taken waits long for regions:
# at nice 10, beside 17 threads a core, for minutes.
_NICE = 5


def compiled(sketch: Sketch | TapeOrder, generics: Generics[Image] | None = None) -> Compiled:
    """Compile a region, or what runs tapes.

    Args:
        generics: codes that may be for it, too; None: it gets one of its own.

    Raises:
        RuntimeError: LLVM refuses it, or gives what cannot be an image.
    """
    if isinstance(sketch, TapeOrder):
        return Compiled([], 0, [], image_of_text(tape_code.text()), ())
    region = Lowerable()
    for step in sketch.steps:
        if not region.add(step):
            raise RuntimeError(f"{step.op} has no loops")
    made, operands = region.generate(sketch.wanted)
    image, numbers = (generics or Generics(image_of_text)).code(made.text)
    phases = [Phase(p.blocks, p.nbytes, p.touched) for p in made.phases]
    return Compiled(operands, made.scratch, phases, image, machine.numbers_of(numbers, made.described))


def image_of_text(text: str, outside: Collection[str] = ()) -> Image:
    """Compile LLVM's text.

    Args:
        outside: functions of the C library that it may call.

    Raises:
        RuntimeError: LLVM refuses it, or gives what cannot be an image.
    """
    llvm, target = _llvm()
    # Nothing may become a call of a library: an image refers to nothing outside of it.
    module = llvm.parse_assembly(text.replace(" noinline nounwind", ' noinline nounwind "no-builtins"'))
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.loop_interleaving = True
    # Unrolled besides, loops are no faster, and take a fifth more time to compile.
    options.loop_unrolling = options.slp_vectorization = False
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    return image_of(target.emit_object(module), outside)


@lru_cache(1)
def _llvm() -> tuple[Any, Any]:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    name, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    made = target.create_target_machine(cpu=name, features=features, opt=2, reloc="pic", codemodel="small")
    return binding, made


def _step_back() -> None:
    """Let all others have the cores first, whatever the process that started this one may have."""
    try:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, 0, max(os.getpriority(os.PRIO_PROCESS, 0), _NICE))
    except OSError as e:
        logging.getLogger(__name__).info("regions are compiled at the usual priority: %s", e)


def main() -> None:
    """Answer until there is nobody to answer, then end the process."""
    _step_back()
    generics = Generics(image_of_text)

    def make(line: str) -> Compiled:
        return compiled(ORDER if line.strip() == ORDER.text else Sketch.of(line), generics)

    answer(make, generics.begin)


def answer(make: Callable[[str], Compiled], begin: Callable[[], None] = lambda: None) -> None:
    """Answer each line of the standard input with what is made of it; an empty one begins anew."""
    out = sys.stdout.buffer
    try:
        for line in sys.stdin:
            if not line.strip():
                begin()
                continue
            try:
                head, image = make(line).packed()
            except RuntimeError as e:
                head, image = json.dumps({"error": str(e)}), b""
            out.write(head.encode() + b"\n" + image)
            out.flush()
    except BrokenPipeError:
        # Who asked was killed. What is still to be written is not written at the end either.
        os._exit(0)
