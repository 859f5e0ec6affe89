"""The file of a study: which settings there are, what is wanted, and how it is searched."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import yaml

from dtfctl.launcher.spec.load import read_file
from dtfctl.launcher.spec.nodes import NotYaml, compose
from dtfctl.launcher.spec.problems import InvalidSpec, Problem, did_you_mean
from dtfctl.values import field, value

Setting: TypeAlias = float | int | str | bool
Settings: TypeAlias = Mapping[str, Setting]
SAMPLERS = ("tpe", "cmaes", "qmc", "random", "grid")
SCHEDULERS = ("none", "asha", "hyperband", "pbt")
MOST_ON_AXIS = 100_000
"""Values of one setting in a grid."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@value
class Range:
    """Numbers from `low` to `high`, both included."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    whole: bool = False
    """Whole numbers only."""

    def count(self) -> float:
        """Count its values, a `step` (or 1) from each other; infinite where that is beyond all numbers."""
        steps = (self.high - self.low) / (self.step or 1) + 1e-9
        return math.floor(steps) + 1 if math.isfinite(steps) else math.inf


@value
class Choices:
    """One of some values."""

    values: tuple[Setting, ...]


Parameter: TypeAlias = Range | Choices


@value
class Budget:
    """How long a trial runs: the number that its script is given as `--ARGUMENT N`, counted from its beginning."""

    argument: str
    least: int
    most: int
    factor: int = 3

    def rungs(self) -> list[int]:
        """List the budgets at which trials are compared, the last of which is `most`."""
        found, at = [], self.least
        while at < self.most:
            found.append(at)
            at *= self.factor
        return [*found, self.most]


@value
class Stop:
    """What ends a study before its trials are used up."""

    seconds: float | None = None
    score: float | None = None
    patience: int | None = None
    """Trials without a better one."""


@value
class Study:
    """What is searched, and how."""

    parameters: Mapping[str, Parameter]
    metric: str
    maximize: bool
    sampler: str = "tpe"
    trials: int = 50
    """How many there are; with `pbt` they are the members of the population."""
    scheduler: str = "none"
    budget: Budget | None = None
    executions: int = 1
    """How often each setting is run; its score is the mean."""
    at_once: int | None = None
    """Jobs side by side; None: as many as there are tasks for."""
    workers: int = 1
    cpus: float | None = None
    memory: int | None = None
    gpus: int | None = None
    framework: str = "dtf"
    seed: int = 0
    stop: Stop = field(default_factory=Stop)

    def better(self, one: float, other: float) -> bool:
        """Tell whether one score is better than another."""
        return one > other if self.maximize else one < other

    def grid(self) -> Iterator[Settings]:
        """List all combinations, in order."""
        axes = []
        for name, parameter in self.parameters.items():
            if isinstance(parameter, Choices):
                axes.append([(name, one) for one in parameter.values])
            else:
                step = parameter.step or 1
                made = [parameter.low + step * number for number in range(int(parameter.count()))]
                axes.append([(name, round(one) if parameter.whole else one) for one in made])
        return (dict(one) for one in itertools.product(*axes))


def load(path: str) -> Study:
    """Read a study's file.

    Raises:
        SpecError: it is not there, or not valid; every problem with its place.
    """
    text = read_file(path, "Its keys are in docs/tuning.md.")
    reader = _Reader()
    try:
        root = compose(text)
    except NotYaml as error:
        raise InvalidSpec(path, [error.problem], text) from None
    study = reader.study(root) if root is not None else None
    if root is None:
        reader.problems.append(Problem(1, 1, "the file is empty", "Write `parameters:` and `metric:`."))
    if reader.problems or study is None:
        raise InvalidSpec(path, reader.problems, text)
    return study


class _Reader:
    """Reads nodes, and collects what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def wrong(self, node: yaml.Node, message: str, expected: str = "") -> None:
        mark = node.start_mark
        self.problems.append(Problem(mark.line + 1, mark.column + 1, message, expected))

    def pairs(self, node: yaml.Node, known: tuple[str, ...] | None, what: str) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            self.wrong(node, f"{what} is no table", "Write `key: value` lines.")
            return {}
        found: dict[str, yaml.Node] = {}
        for key, content in node.value:
            name = str(key.value)
            if known is not None and name not in known:
                self.wrong(
                    key,
                    f"`{name}` is no key of {what}",
                    did_you_mean(name, known).strip() or f"There are {', '.join(known)}.",
                )
            elif name in found:
                self.wrong(key, f"`{name}` is there twice", "Remove one.")
            else:
                found[name] = content
        return found

    def plain(self, node: yaml.Node) -> Setting | None:
        """Read a scalar; None for anything else, which is told."""
        if not isinstance(node, yaml.ScalarNode):
            self.wrong(node, "a single value is wanted here")
            return None
        kind = node.tag.rpartition(":")[2]
        text = str(node.value)
        if kind == "int":
            return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
        if kind == "float":
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        if kind == "bool":
            return text.lower() == "true"
        return text

    def number(self, node: yaml.Node | None, low: float = -math.inf, whole: bool = False) -> Any:
        if node is None:
            return None
        found = self.plain(node)
        if found is None:
            return None
        right = isinstance(found, int if whole else (int, float)) and not isinstance(found, bool)
        if not right or not math.isfinite(float(found)) or float(found) < low:
            least = f" of {low:g} or more" if low > -math.inf else ""
            self.wrong(node, f"`{found}` is no {'whole ' if whole else ''}number{least}")
            return None
        return found

    def word(self, node: yaml.Node | None, known: tuple[str, ...], default: str) -> str:
        if node is None:
            return default
        found = self.plain(node)
        if found not in known:
            self.wrong(
                node,
                f"`{found}` is not known here",
                did_you_mean(str(found), known).strip() or f"Write {' or '.join(known)}.",
            )
            return default
        return str(found)

    def study(self, root: yaml.Node) -> Study | None:
        keys: tuple[str, ...] = ("parameters", "metric", "sampler", "trials", "scheduler", "budget", "at_once")
        keys += ("executions_per_trial", "workers", "cpus", "memory", "gpus", "framework", "seed", "stop")
        found = self.pairs(root, keys, "a study")
        for needed in ("parameters", "metric"):
            if needed not in found:
                self.wrong(root, f"`{needed}` is missing")
        if self.problems:
            return None
        parameters = self.parameters(found["parameters"])
        metric, maximize = self.metric(found["metric"])
        sampler = self.word(found.get("sampler"), SAMPLERS, "tpe")
        scheduler = self.word(found.get("scheduler"), SCHEDULERS, "none")
        budget = self.budget(found["budget"]) if "budget" in found else None
        if scheduler != "none" and budget is None and "budget" not in found:
            self.wrong(found["scheduler"], f"`{scheduler}` compares trials by how long they ran", "Add `budget:`.")
        if sampler == "grid":
            for name, parameter in parameters.items():
                if isinstance(parameter, Range) and (parameter.log or not (parameter.step or parameter.whole)):
                    self.wrong(
                        found["parameters"], f"a grid of `{name}` has no end", "List its values, or add `step:`."
                    )
                elif isinstance(parameter, Range) and parameter.count() > MOST_ON_AXIS:
                    self.wrong(
                        found["parameters"],
                        f"a grid of `{name}` has more than {MOST_ON_AXIS} values",
                        "Make `step:` longer, or choose another sampler.",
                    )
        stop = self.stop(found["stop"]) if "stop" in found else Stop()
        memory = self.number(found.get("memory"), 1, whole=True)
        made = Study(
            parameters,
            metric,
            maximize,
            sampler,
            self.number(found.get("trials"), 1, whole=True) or 50,
            scheduler,
            budget,
            self.number(found.get("executions_per_trial"), 1, whole=True) or 1,
            self.number(found.get("at_once"), 1, whole=True),
            self.number(found.get("workers"), 1, whole=True) or 1,
            self.number(found.get("cpus"), 0.01),
            memory,
            self.number(found.get("gpus"), 0, whole=True),
            self.word(found.get("framework"), ("dtf", "torch", "jax", "tensorflow", "command"), "dtf"),
            self.number(found.get("seed"), 0, whole=True) or 0,
            stop,
        )
        return None if self.problems else made

    def parameters(self, node: yaml.Node) -> dict[str, Parameter]:
        made: dict[str, Parameter] = {}
        for name, content in self.pairs(node, None, "`parameters`").items():
            if not _NAME.fullmatch(name):
                self.wrong(content, f"`{name}` is no name of an option")
            elif isinstance(content, yaml.SequenceNode):
                values = tuple(one for one in map(self.plain, content.value) if one is not None)
                if any(isinstance(one, float) and not math.isfinite(one) for one in values):
                    self.wrong(content, f"`{name}` has a value that is no finite number")
                if not values or len(set(map(repr, values))) != len(values):
                    self.wrong(content, f"`{name}` has no values, or one twice")
                made[name] = Choices(values)
            else:
                parameter = self.range(name, content)
                if parameter is not None:
                    made[name] = parameter
        if not made and not self.problems:
            self.wrong(node, "there is nothing to search")
        return made

    def range(self, name: str, node: yaml.Node) -> Range | None:
        if not isinstance(node, yaml.MappingNode):
            self.wrong(node, f"`{name}` is one value", "List its values, [relu, tanh], or say `from` and `to`.")
            return None
        keys = self.pairs(node, ("from", "to", "step", "scale"), f"`{name}`")
        low, high = self.number(keys.get("from")), self.number(keys.get("to"))
        step = self.number(keys.get("step"))
        log = self.word(keys.get("scale"), ("linear", "log"), "linear") == "log"
        if low is None or high is None:
            if {"from", "to"} - keys.keys():
                self.wrong(node, f"`{name}` lacks `from` or `to`", "Or list its values: [relu, tanh].")
            return None
        if not low < high:
            self.wrong(node, f"`{name}` ends before it begins")
        if log and (low <= 0 or step is not None):
            self.wrong(node, f"`{name}`: a logarithmic scale begins above 0 and has no steps")
        if step is not None and step <= 0:
            self.wrong(node, f"`{name}`: a step is greater than 0")
        whole = all(isinstance(one, int) for one in (low, high, 1 if step is None else step))
        return Range(low, high, log, step, whole)

    def metric(self, node: yaml.Node) -> tuple[str, bool]:
        keys = self.pairs(node, ("name", "goal"), "`metric`")
        name = self.plain(keys["name"]) if "name" in keys else None
        if not isinstance(name, str):
            self.wrong(node, "`metric` lacks `name`", "For example `metric: {name: accuracy, goal: max}`.")
        if "goal" not in keys:
            self.wrong(node, "`metric` lacks `goal`", "Write `goal: max` or `goal: min`.")
        return str(name), self.word(keys.get("goal"), ("max", "min"), "max") == "max"

    def budget(self, node: yaml.Node) -> Budget | None:
        keys = self.pairs(node, ("argument", "min", "max", "factor"), "`budget`")
        most = self.number(keys.get("max"), 1, whole=True)
        least = self.number(keys.get("min"), 1, whole=True) if "min" in keys else most
        factor = self.number(keys.get("factor"), 2, whole=True) or 3
        argument = self.plain(keys["argument"]) if "argument" in keys else "steps"
        if most is None:
            self.wrong(node, "`budget` lacks `max`", "For example `budget: {argument: steps, min: 100, max: 2700}`.")
            return None
        if least is not None and least > most:
            self.wrong(node, "`budget` ends before it begins")
        if not _NAME.fullmatch(str(argument)):
            self.wrong(node, f"`{argument}` is no name of an option")
        return Budget(str(argument), least or most, most, factor)

    def stop(self, node: yaml.Node) -> Stop:
        keys = self.pairs(node, ("seconds", "score", "patience"), "`stop`")
        patience = self.number(keys.get("patience"), 1, whole=True)
        return Stop(self.number(keys.get("seconds"), 0), self.number(keys.get("score")), patience)
