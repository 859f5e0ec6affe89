"""What every command shares: options, help, and how an error becomes an exit code.

`@command(...)` wraps a function `f(session, ...)` into a Typer command. Its docstring is the help; examples and exit
codes are data, so that `--help` and docs/cli.md show the same.
"""

from __future__ import annotations

import errno
import inspect
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Optional, Protocol, cast, get_type_hints

import typer

from dtfctl import tracing
from dtfctl._version import VERSION
from dtfctl.cli import _complete as complete
from dtfctl.cli._groups import ORDER
from dtfctl.cli._plain import PlainCommand
from dtfctl.cli._screen import Output, Screen

if TYPE_CHECKING:
    from dtfctl.launcher.api import Cluster
    from dtfctl.launcher.model import ClusterInfo
    from dtfctl.launcher.operator.completion import Names

EXITS: Mapping[int, str] = {
    0: "done as asked",
    1: "the job or the tasks failed",
    2: "wrong usage; nothing was started",
    3: "a spec or a script that is missing or not valid; nothing was started",
    4: "no such cluster, job, task or host",
    5: "partly done: usable, but not complete",
    6: "could not log in to any needed host",
    7: "another operation or the current state is in the way",
    8: "the controller cannot be reached",
    9: "the time limit ran out; what was begun goes on",
    10: "`plan --exit-code`: there are changes",
    126: "`exec`: the command could not be run",
    127: "`exec`: there is no such command",
    125: "a bug in dtfctl; the path of a report is printed",
    130: "interrupted by Ctrl-C",
    255: "`exec`, `get`, `put`: the connection to the host was lost",
}

# Typer reads `Optional[...]` in every supported version; `X | None` only in some.
# The variables are read in `_session`: Typer would let one win over a flag that stands before the command.
ClusterOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--cluster",
        "-c",
        metavar="NAME",
        help="The cluster; the newest by default.",
        autocompletion=complete.cluster,
    ),
]
OutputOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--output", "-o", metavar="FORMAT", help="table, wide, json or yaml."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no hints.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Log what dtfctl does, to stderr.")]
TimeoutOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--timeout", metavar="TIME", help="Give up after this long (exit code 9); what was begun goes on."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Without a terminal: do it.")]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="No colours; the variable NO_COLOR does the same.")]

COMMON: Mapping[str, tuple[Any, Any]] = {
    "cluster": (ClusterOption, None),
    "output": (OutputOption, None),
    "quiet": (QuietOption, False),
    "verbose": (VerboseOption, False),
    "no_color": (NoColorOption, False),
    "timeout": (TimeoutOption, None),
    "yes": (YesOption, False),
}


class Launcher(Protocol):
    """What the command line needs: `dtfctl.launcher.api`, or a test's stand-in for it."""

    @property
    def Cluster(self) -> type[Cluster]: ...

    @property
    def clusters(self) -> Callable[[], list[ClusterInfo]]: ...

    @property
    def cluster_names(self) -> Callable[[], list[str]]: ...

    @property
    def names_of(self) -> Callable[[str | None], Names]: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """One of dtfctl's own settings: `origin` is the flag or variable it comes from, or `default`."""

    name: str
    value: str
    origin: str


@dataclass(slots=True)
class Session:
    """One invocation: the common options and the launcher to call."""

    cluster_name: str | None
    verbose: bool
    screen: Screen
    yes: bool = False
    timeout_s: float | None = None
    """Time limit of the whole command; None where it has no limit, or one of its own."""
    launcher: Launcher | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    """The options that stood on the command line."""

    @property
    def api(self) -> Launcher:
        """The launcher; imported on first use, because gRPC is slow to import."""
        if self.launcher is None:
            from dtfctl.launcher import api

            self.launcher = api
        return self.launcher

    def settings(self) -> list[Setting]:
        """dtfctl's own settings as they are now."""
        from dtfctl.launcher.paths import home

        flag, environ = self.given, os.environ

        def of(name: str, value: str, default: str, variable: str) -> Setting:
            if flag.get(name):
                return Setting(name, value, f"--{name.replace('_', '-')}")
            return Setting(name, value or default, variable if environ.get(variable) else "default")

        return [
            of("cluster", self.cluster_name or "", "the newest", "DTFCTL_CLUSTER"),
            of("output", self.screen.output, "table", "DTFCTL_OUTPUT"),
            of("timeout", "" if self.timeout_s is None else f"{self.timeout_s:g}s", "each command's", "DTFCTL_TIMEOUT"),
            of("no_color", "yes" if self.screen.no_color or environ.get("NO_COLOR") else "", "no", "NO_COLOR"),
            of("quiet", "yes" if self.screen.quiet else "", "no", ""),
            of("yes", "yes" if self.yes else "", "no", ""),
            Setting(
                "home",
                str(home()),
                next((name for name in ("DTFCTL_HOME", "XDG_STATE_HOME") if environ.get(name)), "default"),
            ),
        ]

    def open(self) -> Cluster:
        """Open the cluster of `-c`, or the newest."""
        return self.api.Cluster.open(self.cluster_name)

    def confirm(self, question: str) -> None:
        """Ask on a terminal, unless --yes was given; scripts are not asked. UsageError for a no."""
        from dtfctl.launcher.errors import UsageError

        if self.yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return
        sys.stdout.flush()
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise UsageError("nothing was done", "Answer y, or give --yes.")

    def require(self, why: str, question: str, instead: str) -> None:
        """Ask on a terminal; elsewhere only --yes will do. Conflict where there is no yes."""
        from dtfctl.launcher.errors import Conflict

        if self.yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise Conflict(f"nothing was done: {why}", f"if that is meant: {instead}")
        sys.stdout.flush()
        sys.stderr.write(f"{why}\n{question} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Conflict("nothing was done", f"Answer y, or: {instead}")


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """What the help and the reference say about a command beside its options."""

    name: str
    summary: str
    text: str
    examples: tuple[str, ...]
    exits: tuple[int, ...]
    function: Callable[..., int | None]


COMMANDS: dict[str, CommandInfo] = {}
"""Every command by its name."""

Registrar = Callable[[typer.Typer], None]
_REGISTRARS: dict[str, Registrar] = {}


def command(
    *,
    examples: Sequence[str],
    exits: Sequence[int],
    name: str | None = None,
    pass_through: bool = False,
    ignore_unknown: bool = False,
) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """Make `f(session, ...)` a command; it returns its exit code, None for 0.

    With `pass_through`, everything after the first positional argument is an argument, even if it begins with `-`; with
    `ignore_unknown` unknown options before it are arguments, too.
    """

    def decorate(function: Callable[..., int | None]) -> Callable[..., int | None]:
        word = name or function.__name__.strip("_").replace("_", "-")
        text = inspect.getdoc(function) or ""
        info = CommandInfo(word, text.partition("\n")[0], text, tuple(examples), (*exits, 125, 130), function)
        COMMANDS[word] = info
        _REGISTRARS[word] = lambda app: _register(app, info, function, pass_through, ignore_unknown)
        return function

    return decorate


def register_all(app: typer.Typer) -> None:
    """Add every declared command to `app`, those that one types first in front."""
    for name in sorted(_REGISTRARS, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER)):
        _REGISTRARS[name](app)


def _register(
    app: typer.Typer, info: CommandInfo, function: Callable[..., int | None], raw: bool, ignores: bool
) -> None:
    hints = get_type_hints(function, include_extras=True)
    parameters = [
        parameter.replace(annotation=hints[parameter.name])
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "session"
    ]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    # A command that waits has a limit of its own, with another default.
    limited = next((parameter for parameter in parameters if parameter.name == "timeout"), None)
    shared = {option: value for option, value in COMMON.items() if option != "timeout" or limited is None}
    common = [
        inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        for option, (hint, default) in shared.items()
    ]
    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    everything = [context, *own, *common]

    def run(**values: Any) -> None:
        ctx: typer.Context = values.pop("ctx")
        options = {option: values.pop(option) for option in shared}
        if limited is not None and values["timeout"] == limited.default:
            values["timeout"] = _limit_before(ctx) or limited.default
        code = _traced(
            info.name,
            lambda: guarded(
                lambda: _session(ctx, options, limited is not None), lambda session: function(session, **values)
            ),
        )
        if code:
            raise typer.Exit(code)

    run.__name__ = function.__name__
    run.__signature__ = inspect.Signature(everything)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in everything}
    settings = {"allow_interspersed_args": not raw, "ignore_unknown_options": ignores}
    app.command(
        info.name,
        cls=PlainCommand,
        help=_help(info),
        short_help=info.summary,
        epilog=_epilog(info),
        context_settings=settings,
    )(run)


def _traced(name: str, run: Callable[[], int]) -> int:
    """Run a command, and tell a collector of it where the environment names one."""
    if not tracing.is_wanted():
        return run()
    problem = tracing.start("dtfctl")
    try:
        with tracing.span(f"dtfctl {name}", parent=os.environ.get("TRACEPARENT", ""), command=name) as told:
            code = run()
            told.note(exit_code=code)
            if code:
                told.fail(f"exit code {code}")
            return code
    finally:
        problem = problem or tracing.finish()
        if problem:
            sys.stderr.write(f"{problem}\n")


def _help(info: CommandInfo) -> str:
    lines = "\n".join(f"  {line}" for line in info.examples)
    return f"{info.text}\n\n\b\nExamples:\n{lines}"


def _epilog(info: CommandInfo) -> str:
    lines = "\n".join(f"  {code:<4} {EXITS[code]}" for code in info.exits)
    return f"\b\nExit codes:\n{lines}"


def _limit_before(ctx: typer.Context) -> str | None:
    """Return the `--timeout` before the command, or of the environment."""
    before = ctx.obj.options.get("timeout") if isinstance(ctx.obj, Root) else None
    return before or os.environ.get("DTFCTL_TIMEOUT") or None


def _session(ctx: typer.Context, options: Mapping[str, Any], has_limit: bool = False) -> Session:
    """Return the session of this command: its own options, else those before the command.

    `has_limit`: the command has a time limit of its own, and keeps to it itself.
    """
    root: Root = ctx.obj if isinstance(ctx.obj, Root) else Root()
    before = root.options
    chosen = options["output"] or before.get("output") or os.environ.get("DTFCTL_OUTPUT") or "table"
    if chosen not in ("table", "wide", "json", "yaml"):
        from dtfctl.launcher.errors import UsageError

        raise UsageError(f"`-o {chosen}` is not a format", "Formats are table, wide, json and yaml.")
    output = cast(Output, chosen)
    verbose = bool(options["verbose"] or before.get("verbose"))
    if verbose:
        import logging

        logging.basicConfig(
            stream=sys.stderr, level=logging.DEBUG, format="%(asctime)s %(name)s %(levelname)s %(message)s"
        )
    return Session(
        cluster_name=options["cluster"] or before.get("cluster") or os.environ.get("DTFCTL_CLUSTER") or None,
        verbose=verbose,
        yes=bool(options["yes"] or before.get("yes")),
        timeout_s=_limit(None if has_limit else options.get("timeout") or _limit_before(ctx)),
        screen=Screen(
            output,
            quiet=bool(options["quiet"] or before.get("quiet")),
            no_color=bool(options["no_color"] or before.get("no_color")),
        ),
        launcher=root.launcher,
        given={name: options.get(name) or before.get(name) for name in COMMON},
    )


def _limit(text: str | None) -> float | None:
    from dtfctl.cli._select import seconds

    return None if text is None else seconds(text, "--timeout")


class _TimeIsOver(BaseException):
    """The command's time limit; not an Exception, so that nothing on the way takes it for a failure to get over."""


@contextmanager
def _within(limit_s: float | None) -> Iterator[None]:
    """DeadlineExpired, out of the middle of whatever is done, when the time is over."""
    from dtfctl.launcher.errors import DeadlineExpired

    if limit_s is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(_number: int, _frame: FrameType | None) -> None:
        raise _TimeIsOver

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(limit_s, 0.001))
    try:
        yield
    except _TimeIsOver:
        raise DeadlineExpired(
            f"not done within {limit_s:g} s", "what was begun goes on; look with: dtfctl status"
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass(slots=True)
class Root:
    """What the program was started with: the launcher to use and the options before the command."""

    launcher: Launcher | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def guarded(make: Callable[[], Session], run: Callable[[Session], int | None]) -> int:
    """Run `run` with every error said in one clear message; return the exit code."""
    from dtfctl.launcher.errors import InternalError, LauncherError, SpecError

    screen = Screen()
    try:
        session = make()
        screen = session.screen
        with _within(session.timeout_s):
            code = run(session) or 0
        sys.stdout.flush()
        return code
    except SpecError as error:
        # Its text stands alone: each problem begins with file:line:column.
        sys.stdout.flush()
        problems = getattr(error, "problems", None)
        if problems is None:
            screen.error(error.message, error.hint)
        else:
            sys.stderr.write(f"{error.message}\n")
            if len(problems) > 1:
                screen.note(f"{len(problems)} problems; nothing was changed")
        return error.exit_code
    except InternalError as error:
        return report_bug(error)
    except LauncherError as error:
        screen.error(error.message, error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        sys.stdout.flush()
        sys.stderr.write("\ninterrupted; `dtfctl status` shows what runs\n")
        return 130
    except BrokenPipeError:
        # The reader went away (`dtfctl logs | head`): what SIGPIPE would have said, without a message.
        _drop_stdout()
        return 141
    except OSError as error:
        if error.errno not in _SURROUNDINGS:
            return report_bug(error)
        try:
            sys.stdout.flush()
        except OSError:
            _drop_stdout()
        where = f": {error.filename}" if error.filename else ""
        screen.error(f"{(error.strerror or str(error)).lower()}{where}", "DTFCTL_HOME names the folder for clusters.")
        return 1
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        return report_bug(error)


_SURROUNDINGS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EMFILE, errno.EIO}
)
"""What the machine refuses is not a bug of ours."""


def _drop_stdout() -> None:
    """Throw away what is still to be written, so that the interpreter does not fail on it again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def report_bug(error: BaseException) -> int:
    """Write a report of an error nobody foresaw, say where it is, and give exit code 125."""
    text = (
        f"dtfctl {VERSION}, Python {sys.version.split()[0]}, {sys.platform}\n"
        f"command: {next((arg for arg in sys.argv[1:] if arg in COMMANDS), '?')}\n\n"
        + "".join(traceback.format_exception(error))
    )
    summary = f"{type(error).__name__}: {error}".splitlines()[0]
    sys.stderr.write(f"error: a bug in dtfctl: {summary}\n")
    try:
        handle, path = tempfile.mkstemp(prefix="dtfctl-report-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as problem:
        sys.stderr.write(f"  No report could be written ({problem}):\n{text}\n")
    else:
        sys.stderr.write(f"  The report is in {path}.\n")
    return 125
