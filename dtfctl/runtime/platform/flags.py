"""`tf.app.flags`: command-line flags declared anywhere, read through `FLAGS`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dtfctl.errors import DtfctlError


class Error(DtfctlError):
    """What is wrong with a flag."""


class IllegalFlagValueError(Error):
    """A flag has a value that it may not have."""


class ValidationError(Error):
    """A validator raises it with what is wrong."""


class Flag:
    """A declared flag, as `FLAGS["name"]` and `FLAGS.__flags` give it.

    Args:
        name: after the dashes.
        default: what it is where the command line does not give it.
        help: what it is for.
        options: how argparse reads it.
    """

    def __init__(self, name: str, default: Any, help: str, options: dict[str, Any]) -> None:
        self.name, self.default, self.help, self.value = name, default, help, default
        self.present = 0
        self.options = options
        self.validators: list[tuple[Callable[[Any], Any], str]] = []

    def check(self) -> None:
        """Ask the validators.

        Raises:
            IllegalFlagValueError: one refuses the value.
        """
        for validator, message in self.validators:
            try:
                right = validator(self.value)
            except ValidationError as e:
                right, message = False, str(e)
            if not right:
                raise IllegalFlagValueError(f"flag --{self.name}={self.value}: {message}")

    def words(self) -> list[str]:
        """Write the flag as a command line gives it; nothing where it is None."""
        if self.value is None:
            return []
        if isinstance(self.value, bool):
            return [f"--{'' if self.value else 'no'}{self.name}"]
        if isinstance(self.value, (list, tuple)):
            if "action" in self.options:
                return [f"--{self.name}={v}" for v in self.value]
            return [f"--{self.name}={','.join(map(str, self.value))}"]
        return [f"--{self.name}={self.value}"]


class FlagValues:
    """Values of the declared flags; the command line is parsed at the first access."""

    def __init__(self) -> None:
        # Programs print `FLAGS.__flags`.
        self.__dict__["__flags"] = {}
        self.__dict__["_parsed"] = False
        self.__dict__["_required"] = []

    def _flags(self) -> dict[str, Flag]:
        found: dict[str, Flag] = self.__dict__["__flags"]
        return found

    def _declare(self, name: str, default: Any, help_text: str, convert: Callable[[str], Any], **options: Any) -> None:
        if name in self:
            raise ValueError(f"The flag '{name}' is defined twice.")
        self._flags()[name] = Flag(name, default, help_text, {"type": convert, **options})
        self.__dict__["_parsed"] = False

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(allow_abbrev=False, argument_default=argparse.SUPPRESS)
        for name, flag in self._flags().items():
            parser.add_argument(f"--{name}", dest=name, help=flag.help, **flag.options)
            if flag.options["type"] is _boolean:
                parser.add_argument(f"--no{name}", dest=name, action="store_false", help=argparse.SUPPRESS)
        return parser

    def __call__(self, argv: Sequence[str], known_only: bool = False) -> list[str]:
        """Parse a command line; argv[0] is the program.

        Returns:
            What is left: the program and arguments that are no flags.
        """
        parser = self._parser()
        parsed, rest = parser.parse_known_args(list(argv[1:]))
        for name, value in vars(parsed).items():
            if name in self:
                flag = self[name]
                flag.value, flag.present = value, flag.present + 1
        self.__dict__["_parsed"] = True
        missing = [n for n in self._required if n in self and self[n].value is None]
        if missing:
            parser.error(f"flag --{missing[0]} must be given")
        try:
            for flag in self._flags().values():
                flag.check()
        except IllegalFlagValueError as e:
            parser.error(str(e))
        unknown = [a for a in rest if a.startswith("-") and a != "-"]
        if unknown and not known_only:
            parser.error(f"unknown flag {unknown[0]}")
        return [argv[0], *rest]

    def _parse_once(self) -> None:
        if not self._parsed:
            self(sys.argv, known_only=True)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._parse_once()
        if name not in self:
            raise AttributeError(f"No flag '{name}' is defined")
        return self[name].value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self:
            raise AttributeError(f"No flag '{name}' is defined")
        self._parse_once()
        self[name].value = value
        self[name].check()

    def __delattr__(self, name: str) -> None:
        if name not in self:
            raise AttributeError(f"No flag '{name}' is defined")
        del self._flags()[name]

    def __getitem__(self, name: str) -> Flag:
        return self._flags()[name]

    def __contains__(self, name: str) -> bool:
        return name in self._flags()

    def __iter__(self) -> Iterator[str]:
        return iter(self._flags())

    def __len__(self) -> int:
        return len(self._flags())

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self._flags()])

    def flag_values_dict(self) -> dict[str, Any]:
        """Return the flags' values by name."""
        return {name: flag.value for name, flag in self._flags().items()}

    def get_flag_value(self, name: str, default: Any) -> Any:
        """Return a flag's value, or `default` where that is None.

        Raises:
            AttributeError: no such flag is defined.
        """
        value = getattr(self, name)
        return default if value is None else value

    def set_default(self, name: str, value: Any) -> None:
        """Change what a flag is where the command line does not give it."""
        flag = self[name]
        flag.default = value
        if not flag.present:
            flag.value = value

    def remove_flag_values(self, flag_values: Iterable[str]) -> None:
        """Forget the definitions of flags."""
        for name in list(flag_values):
            delattr(self, name)

    def flags_into_string(self) -> str:
        """Write the flags as a command line gives them, one a line."""
        return "".join(f"{word}\n" for flag in self._flags().values() for word in flag.words())

    def is_parsed(self) -> bool:
        """Tell whether the command line was parsed."""
        return bool(self._parsed)

    def mark_as_parsed(self) -> None:
        """Take the values as they are."""
        self.__dict__["_parsed"] = True

    def unparse_flags(self) -> None:
        """Let the next access parse the command line again."""
        self.__dict__["_parsed"] = False

    def validate_all_flags(self) -> None:
        """Check that required flags have values, and that validators take the values.

        Raises:
            ValueError: one has none.
            IllegalFlagValueError: a validator refuses one.
        """
        for flag in self._flags().values():
            flag.check()
        for name in self._required:
            if name in self and self[name].value is None:
                raise ValueError(f"flag --{name}=None: Flag --{name} must have a value other than None.")


FLAGS = FlagValues()


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered in ("true", "t", "1", "yes"):
        return True
    if lowered in ("false", "f", "0", "no"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is not a boolean")


def _bounded(convert: Callable[[str], Any], lower: float | None, upper: float | None) -> Callable[[str], Any]:
    """Convert numbers, and refuse those beyond bounds."""

    def number(text: str) -> Any:
        value = convert(text)
        if (lower is not None and value < lower) or (upper is not None and value > upper):
            raise argparse.ArgumentTypeError(f"{text} is not in [{lower}, {upper}]")
        return value

    return number


def _check_default(value: Any, lower: float | None, upper: float | None, name: str) -> None:
    if (lower is not None and value < lower) or (upper is not None and value > upper):
        raise ValueError(f"flag --{name}={value}: not in [{lower}, {upper}]")


def _require(name: str, required: bool, default: Any, flag_values: FlagValues) -> None:
    if required:
        if default is not None:
            raise ValueError(f"Default value must be None. Flag --{name} is required, its default is {default!r}.")
        flag_values._required.append(name)


def DEFINE_string(
    name: str, default: str | None, help: str, flag_values: FlagValues = FLAGS, required: bool = False
) -> None:
    flag_values._declare(name, default, help, str)
    _require(name, required, default, flag_values)


def DEFINE_integer(
    name: str,
    default: int | None,
    help: str,
    lower_bound: int | None = None,
    upper_bound: int | None = None,
    flag_values: FlagValues = FLAGS,
    required: bool = False,
) -> None:
    """Define a flag of a whole number, within bounds where there are any."""
    _number(int, name, default, help, lower_bound, upper_bound, flag_values, required)


def DEFINE_float(
    name: str,
    default: float | None,
    help: str,
    lower_bound: float | None = None,
    upper_bound: float | None = None,
    flag_values: FlagValues = FLAGS,
    required: bool = False,
) -> None:
    """Define a flag of a number, within bounds where there are any."""
    _number(float, name, default, help, lower_bound, upper_bound, flag_values, required)


def _number(
    convert: Callable[[str], Any],
    name: str,
    default: Any,
    help: str,
    lower: float | None,
    upper: float | None,
    flag_values: FlagValues,
    required: bool,
) -> None:
    if default is not None and (lower is not None or upper is not None):
        _check_default(convert(default), lower, upper, name)
    flag_values._declare(name, default, help, _bounded(convert, lower, upper))
    if lower is not None or upper is not None:

        def within(value: Any) -> bool:
            return value is None or ((lower is None or value >= lower) and (upper is None or value <= upper))

        register_validator(name, within, f"not in [{lower}, {upper}]", flag_values)
    _require(name, required, default, flag_values)


def DEFINE_boolean(
    name: str,
    default: bool | None,
    help: str,
    flag_values: FlagValues = FLAGS,
    module_name: str | None = None,
    required: bool = False,
) -> None:
    """`--name`, `--name=true`, `--noname`; `module_name` is what absl's help is sorted by, and changes nothing here."""
    flag_values._declare(name, default, help, _boolean, nargs="?", const=True)
    _require(name, required, default, flag_values)


DEFINE_bool = DEFINE_boolean


def DEFINE_enum(
    name: str,
    default: str | None,
    enum_values: Sequence[str],
    help: str,
    flag_values: FlagValues = FLAGS,
    module_name: str | None = None,
    required: bool = False,
) -> None:
    """Define a flag of one of some words; `module_name` changes nothing here."""
    flag_values._declare(name, default, help, str, choices=list(enum_values))
    _require(name, required, default, flag_values)


def DEFINE_list(name: str, default: Any, help: str, flag_values: FlagValues = FLAGS, required: bool = False) -> None:
    """Define a flag of comma-separated values."""
    start = _comma_list(default) if isinstance(default, str) else default
    flag_values._declare(name, start, help, _comma_list)
    _require(name, required, default, flag_values)


def _comma_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _multi(
    name: str, default: Any, help: str, convert: Callable[[str], Any], flag_values: FlagValues, **options: Any
) -> None:
    """Declare a flag that may be given several times; the values given replace the default."""
    start = default if default is None or isinstance(default, (list, tuple)) else [default]
    values = None if start is None else [convert(v) if isinstance(v, str) else v for v in start]
    flag_values._declare(name, values, help, convert, action=_Replacing, **options)


class _Replacing(argparse.Action):
    """Collects the values of a flag that is given several times."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        given = vars(namespace).setdefault(f"{self.dest} given", [])
        given.append(values)
        setattr(namespace, self.dest, list(given))


def DEFINE_multi_string(
    name: str, default: Any, help: str, flag_values: FlagValues = FLAGS, required: bool = False
) -> None:
    """Define a flag of strings: `--name=a --name=b`."""
    _multi(name, default, help, str, flag_values)
    _require(name, required, default, flag_values)


def DEFINE_multi_integer(
    name: str,
    default: Any,
    help: str,
    lower_bound: int | None = None,
    upper_bound: int | None = None,
    flag_values: FlagValues = FLAGS,
    required: bool = False,
) -> None:
    """Define a flag of whole numbers: `--name=1 --name=2`."""
    _multi(name, default, help, _bounded(int, lower_bound, upper_bound), flag_values)
    _require(name, required, default, flag_values)


def DEFINE_multi_float(
    name: str,
    default: Any,
    help: str,
    lower_bound: float | None = None,
    upper_bound: float | None = None,
    flag_values: FlagValues = FLAGS,
    required: bool = False,
) -> None:
    """Define a flag of numbers: `--name=0.1 --name=0.2`."""
    _multi(name, default, help, _bounded(float, lower_bound, upper_bound), flag_values)
    _require(name, required, default, flag_values)


def DEFINE_multi_enum(
    name: str,
    default: Any,
    enum_values: Sequence[str],
    help: str,
    flag_values: FlagValues = FLAGS,
    case_sensitive: bool = True,
    required: bool = False,
) -> None:
    """Define a flag of some of these words: `--name=a --name=b`."""
    words = {(w if case_sensitive else w.lower()): w for w in enum_values}

    def word(text: str) -> str:
        return words.get(text if case_sensitive else text.lower(), text)

    _multi(name, default, help, word, flag_values, choices=list(enum_values))
    _require(name, required, default, flag_values)


def DEFINE_spaceseplist(
    name: str,
    default: Any,
    help: str,
    comma_compat: bool = False,
    flag_values: FlagValues = FLAGS,
    required: bool = False,
) -> None:
    """Define a flag of values between spaces; or commas too, with `comma_compat`."""

    def parts(text: str) -> list[str]:
        return (text.replace(",", " ") if comma_compat else text).split()

    flag_values._declare(name, parts(default) if isinstance(default, str) else default, help, parts)
    _require(name, required, default, flag_values)


def mark_flag_as_required(flag_name: str, flag_values: FlagValues = FLAGS) -> None:
    flag_values._required.append(flag_name)


def mark_flags_as_required(flag_names: Sequence[str], flag_values: FlagValues = FLAGS) -> None:
    for name in flag_names:
        mark_flag_as_required(name, flag_values)


def register_validator(
    flag_name: str,
    checker: Callable[[Any], Any],
    message: str = "Flag validation failed",
    flag_values: FlagValues = FLAGS,
) -> None:
    """Check a flag's value where the command line is parsed, and when it is set.

    Args:
        checker: tells whether it takes the value; it may raise ValidationError with what is wrong.
    """
    flag_values[flag_name].validators.append((checker, message))


def validator(
    flag_name: str, message: str = "Flag validation failed", flag_values: FlagValues = FLAGS
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Decorate a function that checks a flag's value."""

    def decorate(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        register_validator(flag_name, function, message, flag_values)
        return function

    return decorate


def mark_flags_as_mutual_exclusive(
    flag_names: Sequence[str], required: bool = False, flag_values: FlagValues = FLAGS
) -> None:
    """Let at most one of some flags be given; one must be, with `required`."""

    def only_one(_: Any) -> bool:
        given = sum(flag_values[name].value is not None for name in flag_names)
        return given == 1 if required else given <= 1

    message = (
        f"{'Exactly' if required else 'At most'} one of ({', '.join(flag_names)}) must have a value other than None."
    )
    for name in flag_names:
        register_validator(name, only_one, message, flag_values)
