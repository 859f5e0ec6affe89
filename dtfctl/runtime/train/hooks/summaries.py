"""Hooks that write down how training goes: steps a second, summaries, values, timelines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dtfctl.protocol import config_pb2, summary_pb2
from dtfctl.runtime.framework import context
from dtfctl.runtime.train.hooks.timing import SecondOrStepTimer, global_step_read
from dtfctl.runtime.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from dtfctl.runtime.train.summary_io import FileWriterCache

log = logging.getLogger("dtfctl.train")


class StepCounterHook(SessionRunHook):
    """Writes and logs how many steps are done a second."""

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
    ) -> None:
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_steps=every_n_steps, every_secs=every_n_secs)
        self._writer, self._dir = summary_writer, output_dir

    def begin(self) -> None:
        if self._writer is None and self._dir:
            self._writer = FileWriterCache.get(self._dir)
        self._step = global_step_read()
        self._tag = "global_step/sec"

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if not self._timer.should_trigger_for_step(int(run_values.results) + 1):
            return
        step = int(run_context.session.run(self._step))
        if not self._timer.should_trigger_for_step(step):
            return
        secs, steps = self._timer.update_last_triggered_step(step)
        if secs and steps is not None:
            self._log_and_record(steps, secs, step)

    def _log_and_record(self, elapsed_steps: int, elapsed_time: float, global_step: int) -> None:
        rate = elapsed_steps / elapsed_time
        if self._writer is not None:
            value = summary_pb2.Summary.Value(tag=self._tag, simple_value=rate)
            self._writer.add_summary(summary_pb2.Summary(value=[value]), global_step)
        log.info("%s: %g", self._tag, rate)


class SummarySaverHook(SessionRunHook):
    """Writes summaries every so many steps or seconds."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
    ) -> None:
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._summary_op, self._scaffold = summary_op, scaffold
        self._writer, self._dir = summary_writer, output_dir
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self) -> None:
        if self._writer is None and self._dir:
            self._writer = FileWriterCache.get(self._dir)
        self._next_step: int | None = None
        self._step = global_step_read()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        self._due = self._next_step is None or self._timer.should_trigger_for_step(self._next_step)
        fetches: dict[str, Any] = {"global_step": self._step}
        op = self._summary_op if self._summary_op is not None else self._scaffold.summary_op
        if self._due and op is not None:
            fetches["summary"] = op
        return SessionRunArgs(fetches)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if self._writer is None:
            return
        # What was read is the step before.
        step = int(run_values.results["global_step"]) + 1
        if self._next_step is None or self._due:
            step = int(run_context.session.run(self._step))
        if self._next_step is None:
            self._writer.add_session_log(summary_pb2.SessionLog(status=summary_pb2.SessionLog.START), step)
        if self._due:
            self._timer.update_last_triggered_step(step)
            found = run_values.results.get("summary")
            if found is not None:
                for summary in found if isinstance(found, (list, tuple)) else [found]:
                    self._writer.add_summary(summary, step)
        self._next_step = step + 1

    def end(self, session: Any = None) -> None:
        if self._writer is not None:
            self._writer.flush()


class LoggingTensorHook(SessionRunHook):
    """Logs tensors every N runs, every so many seconds, or at the end."""

    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> None:
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError("either at_end and/or exactly one of every_n_iter and every_n_secs must be provided.")
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        if not isinstance(tensors, Mapping):
            self._order: list[str] = [t if isinstance(t, str) else t.name for t in tensors]
            tensors = dict(zip(self._order, tensors))
        else:
            self._order = list(tensors)
        self._tensors, self._formatter, self._at_end = tensors, formatter, at_end
        self._timer = None if only_at_end else SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_iter)

    def begin(self) -> None:
        graph = context.get_default_graph()
        if self._timer is not None:
            self._timer.reset()
        self._iteration = 0
        self._current = {k: graph.as_graph_element(v) for k, v in self._tensors.items()}

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._due = self._timer is not None and self._timer.should_trigger_for_step(self._iteration)
        return SessionRunArgs(self._current) if self._due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if self._due:
            self._log(run_values.results)
        self._iteration += 1

    def end(self, session: Any) -> None:
        if self._at_end:
            self._log(session.run(self._current))

    def _log(self, values: Mapping[str, Any]) -> None:
        secs = None if self._timer is None else self._timer.update_last_triggered_step(self._iteration)[0]
        if self._formatter:
            log.info(self._formatter(values))
            return
        text = ", ".join(f"{k} = {values[k]}" for k in self._order)
        log.info("%s", text if secs is None else f"{text} ({secs:.3f} sec)")


class ProfilerHook(SessionRunHook):
    """Writes a Chrome trace of a step every so many steps or seconds, and its times for TensorBoard's graph."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        self._prefix = Path(output_dir)
        self._writer = FileWriterCache.get(output_dir)
        self._shown = show_dataflow, show_memory
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self) -> None:
        self._next_step: int | None = None
        self._step = global_step_read()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        self._due = self._next_step is not None and self._timer.should_trigger_for_step(self._next_step)
        options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE) if self._due else None
        return SessionRunArgs(self._step, options=options)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        from dtfctl.runtime.profiler.timeline import Timeline

        step = int(run_values.results)
        if self._next_step is None:
            self._timer.update_last_triggered_step(step)
        if self._due:
            self._timer.update_last_triggered_step(step)
            self._prefix.mkdir(parents=True, exist_ok=True)
            trace = Timeline(run_values.run_metadata.step_stats).generate_chrome_trace_format(*self._shown)
            (self._prefix / f"timeline-{step}.json").write_text(trace)
            self._writer.add_run_metadata(run_values.run_metadata, f"step_{step}")
        self._next_step = step + 1
