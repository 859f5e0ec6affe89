"""`tensorflow.python.ops.critical_section_ops`: sections of which one part runs at a time."""

from dtfctl.runtime.ops.critical_section import CRITICAL_SECTION_EXECUTIONS, CRITICAL_SECTIONS, CriticalSection

__all__ = ["CRITICAL_SECTIONS", "CRITICAL_SECTION_EXECUTIONS", "CriticalSection"]
