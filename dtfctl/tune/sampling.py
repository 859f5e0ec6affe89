"""Where new settings come from: Optuna's samplers, told and asked in an order that can be repeated.

The study that Optuna has is in memory. What was asked and told is in our records, in its order; asking and telling the
same again, with the same seed, brings a sampler to where it was (its own storage on disk takes 328 ms a trial).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from dtfctl.launcher.errors import UsageError
from dtfctl.tune.space import Choices, Parameter, Range, Setting, Settings, Study

STARTUP = 10
"""Trials of which TPE makes its first model."""
BEST = 5
"""What matters is read off at least so many of the best trials: one or two say anything."""


class Sampler:
    """Asked for settings, and told how trials ended."""

    def __init__(self, study: Study) -> None:
        """Make the sampler that a study names.

        Raises:
            UsageError: what it needs is not installed.
        """
        self._grid = study.grid() if study.sampler == "grid" else None
        if self._grid is not None:
            return
        self._optuna = _import()
        self._distributions = {
            name: _distribution(self._optuna, parameter) for name, parameter in study.parameters.items()
        }
        self._study = self._optuna.create_study(
            sampler=_sampler(self._optuna, study), direction="maximize" if study.maximize else "minimize"
        )
        self._asked: dict[int, Any] = {}

    def ask(self, trial: int) -> Settings | None:
        """Give the settings of a new trial; None where a grid is at its end."""
        if self._grid is not None:
            return next(self._grid, None)
        asked = self._asked[trial] = self._study.ask(self._distributions)
        return dict(asked.params)

    def tell(self, trial: int, settings: Settings, budget: int | None, score: float | None, last: bool) -> None:
        """Say how a leg ended; `last`: it ran for the whole budget. None: it failed."""
        if self._grid is not None:
            return
        states = self._optuna.trial.TrialState
        if score is None:
            if trial in self._asked:
                self._study.tell(self._asked.pop(trial), state=states.FAIL)
            return
        if last and trial in self._asked:
            self._study.tell(self._asked.pop(trial), score)
            return
        # What has a score after a part of the budget is known by that, and ranks behind what ran for longer.
        if trial in self._asked:
            asked = self._asked.pop(trial)
            asked.report(score, budget or 0)
            self._study.tell(asked, state=states.PRUNED)
            return
        self._study.add_trial(
            self._optuna.trial.create_trial(
                params=dict(settings),
                distributions=self._distributions,
                state=states.COMPLETE if last else states.PRUNED,
                value=score,
                intermediate_values={} if budget is None else {budget: score},
            )
        )


def importance(study: Study, scored: list[tuple[Settings, float]]) -> Mapping[str, float]:
    """Tell how much each setting matters to being among the best (PED-ANOVA); nothing of less than twice `BEST` trials.

    The best are a tenth of all, or `BEST` of them.
    """
    if len(scored) < 2 * BEST or len(study.parameters) < 2:
        return {}
    optuna = _import()
    distributions = {name: _distribution(optuna, parameter) for name, parameter in study.parameters.items()}
    made = optuna.create_study(direction="maximize" if study.maximize else "minimize")
    for settings, score in scored:
        made.add_trial(optuna.trial.create_trial(params=dict(settings), distributions=distributions, value=score))
    best = max(0.1, BEST / len(scored))
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=best)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: dict[str, float] = optuna.importance.get_param_importances(made, evaluator=evaluator)
    except (ValueError, RuntimeError):
        return {}  # all scores are alike
    return found


def _import() -> Any:
    try:
        import optuna
    except ImportError:
        raise UsageError(
            "`dtfctl tune` needs the package optuna", "pip install 'dtfctl[tune]', or choose `sampler: grid`"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _sampler(optuna: Any, study: Study) -> Any:
    samplers = optuna.samplers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if study.sampler == "tpe":
            return samplers.TPESampler(seed=study.seed, n_startup_trials=STARTUP, constant_liar=True)
        if study.sampler == "cmaes":
            try:
                import cmaes  # noqa: F401
            except ImportError:
                raise UsageError(
                    "`sampler: cmaes` needs the package cmaes", "pip install 'dtfctl[tune]', or choose another"
                ) from None
            return samplers.CmaEsSampler(seed=study.seed)
        if study.sampler == "qmc":
            return samplers.QMCSampler(seed=study.seed, scramble=True, warn_independent_sampling=False)
        return samplers.RandomSampler(seed=study.seed)


def _distribution(optuna: Any, parameter: Parameter) -> Any:
    kinds = optuna.distributions
    if isinstance(parameter, Choices):
        values: tuple[Setting, ...] = parameter.values
        return kinds.CategoricalDistribution(values)
    return _of_range(kinds, parameter)


def _of_range(kinds: Any, parameter: Range) -> Any:
    if parameter.whole:
        step = 1 if parameter.step is None else int(parameter.step)
        return kinds.IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log, step=step)
    return kinds.FloatDistribution(parameter.low, parameter.high, log=parameter.log, step=parameter.step)
