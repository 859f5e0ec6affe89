"""The file of a study: what is read, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtfctl.launcher.errors import SpecError
from dtfctl.tune.space import Budget, Choices, Range, Stop, load

GOOD = """
parameters:
  lr: {from: 1e-5, to: 1e-1, scale: log}
  width: {from: 16, to: 64, step: 16}
  rate: {from: 0, to: 0.5, step: 0.25}
  act: [relu, tanh]
  deep: [true, false]
metric: {name: accuracy, goal: max}
sampler: cmaes
trials: 7
scheduler: asha
budget: {argument: epochs, min: 1, max: 20, factor: 4}
executions_per_trial: 2
workers: 2
seed: 3
stop: {patience: 5, score: 0.99}
"""


def test_all_of_a_study_is_read(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(GOOD)
    study = load(str(tmp_path / "s.yaml"))
    assert study.parameters == {
        "lr": Range(1e-5, 1e-1, log=True),
        "width": Range(16, 64, step=16, whole=True),
        "rate": Range(0, 0.5, step=0.25),
        "act": Choices(("relu", "tanh")),
        "deep": Choices((True, False)),
    }
    assert (study.metric, study.maximize, study.sampler, study.trials) == ("accuracy", True, "cmaes", 7)
    assert study.budget == Budget("epochs", 1, 20, 4) and study.budget.rungs() == [1, 4, 16, 20]
    assert (study.executions, study.workers, study.seed, study.stop) == (2, 2, 3, Stop(None, 0.99, 5))


def test_a_grid_has_all_combinations(tmp_path: Path) -> None:
    text = "parameters: {a: {from: 1, to: 3}, b: {from: 0, to: 0.4, step: 0.2}, c: [x]}\nsampler: grid\n"
    (tmp_path / "s.yaml").write_text(text + "metric: {name: m, goal: min}\n")
    found = list(load(str(tmp_path / "s.yaml")).grid())
    assert len(found) == 9 and found[-1] == {"a": 3, "b": 0.4, "c": "x"} and isinstance(found[0]["a"], int)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("[1]", "no table"),
        ("metric: {name: m, goal: max}", "`parameters` is missing"),
        ("parameters: {a: [1]}\nmetric: {name: m}", "lacks `goal`"),
        ("parameters: {a: [1]}\nmetric: {name: m, goal: up}", "2:25.*`up`"),
        ("parameters: {a: [1, 1]}\nmetric: {name: m, goal: max}", "one twice"),
        ("parameters: {a: {from: 2, to: 1}}\nmetric: {name: m, goal: max}", "ends before"),
        ("parameters: {a: {from: 0, to: 1, scale: log}}\nmetric: {name: m, goal: max}", "above 0"),
        ("parameters: {a: {to: 1}}\nmetric: {name: m, goal: max}", "lacks `from`"),
        ("parameters: {a: [1]}\nmetric: {name: m, goal: max}\nscheduler: asha", "Add `budget:`"),
        ("parameters: {a: [1]}\nmetric: {name: m, goal: max}\nsamplr: tpe", "sampler"),
        ("parameters: {a: [1]}\nmetric: {name: m, goal: max}\ntrials: 1.5", "no whole number"),
        ("parameters: {a: {from: 0, to: 1.0}}\nmetric: {name: m, goal: max}\nsampler: grid", "has no end"),
        (
            "parameters: {a: [1]}\nmetric: {name: m, goal: max}\nbudget: {min: 9, max: 3}\nscheduler: asha",
            "ends before",
        ),
        ("parameters: {a: {from: .nan, to: 1.0}}\nmetric: {name: m, goal: max}", "`nan` is no number"),
        ("parameters: {a: {from: 0, to: .inf}}\nmetric: {name: m, goal: max}", "`inf` is no number"),
        ("parameters: {a: [1, -.Inf]}\nmetric: {name: m, goal: max}", "no finite number"),
        ("parameters: {a: {from: 0, to: 1, step: 1e-300}}\nmetric: {name: m, goal: max}\nsampler: grid", "more than"),
        (
            "parameters: {a: {from: 0, to: 1e200, step: 1e-200}}\nmetric: {name: m, goal: max}\nsampler: grid",
            "more than",
        ),
        ("parameters: {a: [1], a: [2]}\nmetric: {name: m, goal: max}", "twice"),
        ("parameters: {a: relu}\nmetric: {name: m, goal: max}", "`a` is one value .*List its values"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(SpecError) as error:
        load(str(tmp_path / "s.yaml"))
    rendered = getattr(error.value, "render", lambda: str(error.value))()
    with pytest.raises(ValueError, match=says):
        raise ValueError(rendered.replace("\n", " "))


def test_a_study_that_is_not_there_is_not_to_be_written_by_init(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        load(str(tmp_path / "s.yaml"))
    assert "docs/tuning.md" in str(getattr(error.value, "render", lambda: error.value)())
