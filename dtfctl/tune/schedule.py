"""Which trial runs next and for how long: pure functions of what has been run.

A trial runs in legs. Each leg is a job that goes on from the checkpoint of the leg before it, up to a budget; at its
end the trial has a score at that budget. What these decide is the next leg:

- `none`: every trial has one leg, of the whole budget.
- `asha` (Li et al. 2018): where enough trials have a score at a rung, the best of them that is still there goes on to
  the next one; else a new trial begins. Nobody waits for others.
- `hyperband` (Li et al. 2016): brackets that begin at different rungs with different numbers of trials; in a bracket
  all trials of a rung are awaited before the best go on.
- `pbt` (Jaderberg et al. 2017): a population; who is in the worst quarter at a rung goes on from the checkpoint of one
  in the best quarter, with its settings changed a little.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from dtfctl.tune.space import Budget, Choices, Parameter, Range, Setting, Settings, Study
from dtfctl.values import value

QUARTER = 0.25
RESAMPLED = 0.25
FACTORS = (0.8, 1.2)


@value
class Leg:
    """A part of a trial."""

    trial: int
    number: int
    """Which of the trial's legs, from 0."""
    settings: Settings
    budget: int | None
    """None: the script knows itself how long it runs."""
    after: tuple[int, int] | None = None
    """The trial and number of the leg whose checkpoint it goes on from."""

    @property
    def key(self) -> tuple[int, int]:
        return self.trial, self.number


@value
class Past:
    """A leg that was begun, and its score: None where it has none (yet)."""

    leg: Leg
    score: float | None
    ended: bool


Propose = Callable[[], Settings | None]
"""New settings; None: there are no more."""


def next_leg(study: Study, past: Sequence[Past], propose: Propose) -> Leg | None:
    """Decide what is begun next; None: nothing, until something ends. Where nothing runs either, the study is over."""
    decide = {"none": _plain, "asha": _asha, "hyperband": _hyperband, "pbt": _pbt}[study.scheduler]
    return decide(study, past, propose)


def _new(study: Study, past: Sequence[Past], propose: Propose, budget: int | None) -> Leg | None:
    number = len({one.leg.trial for one in past})
    if number >= study.trials:
        return None
    settings = propose()
    return None if settings is None else Leg(number, 0, settings, budget)


def _plain(study: Study, past: Sequence[Past], propose: Propose) -> Leg | None:
    return _new(study, past, propose, study.budget.most if study.budget else None)


def _best_first(study: Study, found: Sequence[Past]) -> list[Past]:
    """Sort what has a score; of equals the older trial is first."""
    scored = [one for one in found if one.score is not None]
    sign = -1 if study.maximize else 1
    return sorted(scored, key=lambda one: (sign * (one.score or 0.0), one.leg.trial))


def _on(one: Past, budget: int) -> Leg:
    return Leg(one.leg.trial, one.leg.number + 1, one.leg.settings, budget, one.leg.key)


def _asha(study: Study, past: Sequence[Past], propose: Propose) -> Leg | None:
    assert study.budget is not None
    rungs = study.budget.rungs()
    for rung in reversed(range(len(rungs) - 1)):
        ended = [one for one in past if one.leg.budget == rungs[rung] and one.ended]
        gone_on = {one.leg.trial for one in past if one.leg.budget == rungs[rung + 1]}
        for one in _best_first(study, ended)[: len(ended) // study.budget.factor]:
            if one.leg.trial not in gone_on:
                return _on(one, rungs[rung + 1])
    return _new(study, past, propose, rungs[0])


def brackets(budget: Budget, trials: int) -> list[tuple[int, int]]:
    """Divide trials into Hyperband's brackets: the rung at which each begins, and its trials; repeated to the end."""
    top = len(budget.rungs()) - 1
    found: list[tuple[int, int]] = []
    left = trials
    while left > 0:
        for rung in range(top + 1):
            size = math.ceil((top + 1) / (top - rung + 1) * budget.factor ** (top - rung))
            if left > 0:
                found.append((rung, min(size, left)))
                left -= size
    return found


def _hyperband(study: Study, past: Sequence[Past], propose: Propose) -> Leg | None:
    assert study.budget is not None
    rungs = study.budget.rungs()
    first = 0
    for begin, size in brackets(study.budget, study.trials):
        members = range(first, first + size)
        first += size
        mine = [one for one in past if one.leg.trial in members]
        if len({one.leg.trial for one in mine}) < size:
            return _new(study, past, propose, rungs[begin])
        for rung in range(begin, len(rungs) - 1):
            here = [one for one in mine if one.leg.budget == rungs[rung]]
            if not here or not all(one.ended for one in here):
                break
            gone_on = {one.leg.trial for one in mine if one.leg.budget == rungs[rung + 1]}
            kept = max(1, len(here) // study.budget.factor)
            for one in _best_first(study, here)[:kept]:
                if one.leg.trial not in gone_on:
                    return _on(one, rungs[rung + 1])
    return None


def _pbt(study: Study, past: Sequence[Past], propose: Propose) -> Leg | None:
    assert study.budget is not None
    rungs = [*range(study.budget.least, study.budget.most, study.budget.least), study.budget.most]
    newest: dict[int, Past] = {}
    for one in past:
        if one.leg.number >= (newest[one.leg.trial].leg.number if one.leg.trial in newest else 0):
            newest[one.leg.trial] = one
    begun = _new(study, past, propose, rungs[0])
    if begun is not None:
        return begun
    for trial, one in sorted(newest.items(), key=lambda item: (item[1].leg.number, item[0])):
        if not one.ended or one.leg.number + 1 >= len(rungs):
            continue
        # Those who are further than this one may teach it, too.
        ranked = _best_first(study, [other for other in past if other.ended and other.leg.budget == one.leg.budget])
        if not ranked:
            continue
        chance = random.Random(f"{study.seed} {trial} {one.leg.number}")
        few = max(1, int(len(ranked) * QUARTER))
        worst = [other.leg.trial for other in ranked[-few:]] if len(ranked) > 1 else []
        if one.score is None or trial in worst:
            teacher = chance.choice(ranked[:few])
            settings = explore(study, teacher.leg.settings, chance)
            return Leg(trial, one.leg.number + 1, settings, rungs[one.leg.number + 1], teacher.leg.key)
        return _on(one, rungs[one.leg.number + 1])
    return None


def explore(study: Study, settings: Settings, chance: random.Random) -> Settings:
    """Change settings a little: each by a factor, or to a neighbour of a list, and now and then to anything."""
    return {name: _changed(parameter, settings[name], chance) for name, parameter in study.parameters.items()}


def _changed(parameter: Parameter, now: Setting, chance: random.Random) -> Setting:
    anew = chance.random() < RESAMPLED
    if isinstance(parameter, Choices):
        if anew:
            return chance.choice(parameter.values)
        at = parameter.values.index(now) + chance.choice((-1, 1))
        return parameter.values[min(max(at, 0), len(parameter.values) - 1)]
    return _number_near(parameter, float(now), chance, anew)


def _number_near(parameter: Range, now: float, chance: random.Random, anew: bool) -> float | int:
    if anew and parameter.log:
        made = math.exp(chance.uniform(math.log(parameter.low), math.log(parameter.high)))
    elif anew:
        made = chance.uniform(parameter.low, parameter.high)
    else:
        made = now * chance.choice(FACTORS)
    if parameter.step:
        made = parameter.low + round((made - parameter.low) / parameter.step) * parameter.step
    made = min(max(made, parameter.low), parameter.high)
    return round(made) if parameter.whole else made
