"""The estimator that every model is: parameters checked, planned, trained, kept, saved.

    fit ─► check ─► _problem ─► plan ─► where to begin ─► Trainer ─► state_, history_, reports
                                         (first state, last fit, checkpoint)

A subclass says what its problem, plan, first state and text are; what is below reads top down.
"""

from __future__ import annotations

import inspect
import math
import os
import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from daskpart.errors import BalanceWarning, InputError

from .callbacks import (
    CallbackSupportMixin,
    Checkpoint,
    EpochCallback,
    EpochContexts,
    Tolerance,
    TrainingProgress,
    epoch_contexts,
)
from .checkpoints import CheckpointWriter
from .early_stopping import Watch
from .memory import warn_of_memory
from .parameters import SharedParameters, check_parameters
from .plan import FitPlan, SavedPlan, parts_given
from .problem import Problem
from .progress import Measure
from .reports import CommunicationReport
from .saving import load_model, save_model
from .session import Connection, default_ranks, expected_transport
from .settings import VALIDATION, WEIGHED, described
from .state import State
from .text import Text
from .trainer import Trainer

_OF_FEATURES = ("n_features_in_", "feature_names_in_")


class DistributedEstimator(CallbackSupportMixin, SharedParameters):
    """The base of every model.

    A subclass has those of `SharedParameters` in its ``__init__`` that mean something to it, and
    gives `_problem`, `_make_plan`, `_first_state` and `_text`. Its ``fit`` is a signature with a
    docstring, decorated by `with_callbacks` and `with_words_of_fit`, that calls `_fit`; so is its
    ``partial_fit``.

    Attributes
    ----------
    state_ : State
    history_ : pandas.DataFrame
        One row a step.
    n_iter_ : int
        Whole steps done.
    best_iteration_ : int or None
        The step, counted from 1, whose weights the model has; None without `patience`: the last.
    plan_report_ : PlanReport
        What a step was planned to send, and each rank to hold.
    comm_report_ : CommunicationReport
        What it sent, beside that.
    n_features_in_ : int
    """

    _decide_plan: ClassVar[tuple[str, ...]] = ()  # a plan made with others is refused
    _decide_bits: ClassVar[tuple[str, ...]] = ()  # a checkpoint of others is refused
    _measures: ClassVar[tuple[Measure, ...]] = ()
    _state_class: ClassVar[type[State]] = State
    _takes_dense: ClassVar[bool] = True  # False where absent cannot be told from zero
    _tolerance_column: ClassVar[str | None] = None  # of the history, that `tol` is compared with
    _patience_column: ClassVar[str] = "validation_rmse"  # of the history: its lowest value is best

    state_: State

    # -- what a model says ---

    def _problem(self, X: Any, y: Any, data: dict[str, Any], random_state: int) -> Any:
        """The data, checked.

        `data` are the further arguments of the model's ``fit``; of ``partial_fit`` "one_step", too.
        """
        raise NotImplementedError

    def _make_plan(
        self, problem: Any, n_ranks: int, *, transport: str, random_state: int, kept: Any
    ) -> Any:
        """The plan of a fit.

        Parameters
        ----------
        problem : Problem
        n_ranks : int
        transport : str
            The one that is expected, never "auto".
        random_state : int
        kept : State or None
            The checkpoint that the fit resumes from: what it has chosen stays chosen.
        """
        raise NotImplementedError

    def _first_state(self, problem: Any, plan: Any) -> Any:
        """Where a fit begins; epoch 0. Its rows may be left blank for the text to fill."""
        raise NotImplementedError

    def _text(self, session: Any, plan: Any, problem: Any, state: Any) -> Text:
        """One attempt on a session; `state` is of the fit, for shapes and names."""
        raise NotImplementedError

    def _check(self) -> None:
        """Refuse parameters that contradict each other (InputError)."""

    def _going_on(self, state: Any, problem: Any) -> Any:
        """The last step of the last fit as the start of the next; InputError for other data.

        It is made before anything is cut.
        """
        return state

    def _in_another_fit(self, state: Any, settings: dict[str, Any]) -> Any:
        """The same where data, parameters or ranks differ: without what served the last fit only.

        Parameters
        ----------
        state : State
            What `_going_on` gave.
        settings : dict
            Of the fit that begins.
        """
        return state

    def _watch(self) -> Watch | None:
        """What `patience` looks at; None where it was not given."""
        return None if self.patience is None else Watch(int(self.patience), *self._monitored())

    def _monitored(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Columns of the history that decide: those best at their lowest, and at their highest."""
        return (self._patience_column,), ()

    def _plan_of_fit(self, plan: Any, problem: Any) -> Any:
        """A plan with what this problem needs that does not decide how it is cut."""
        return plan

    def _chosen(self, plan: Any) -> dict[str, Any]:
        """What a plan decided that a resumed fit must share, as JSON."""
        return {}

    def _default_ranks(self, client: Any) -> int:
        """How many ranks where ``n_ranks`` is None."""
        return default_ranks(self.transport, client)

    def _evaluation(self, problem: Any) -> Any:
        """``evaluate(state)``, columns of the history that need the state; None: there are none."""
        return None

    def _train(
        self,
        trainer: Trainer,
        problem: Any,
        plan: Any,
        start: Any,
        last: int,
        epochs: EpochContexts,
    ) -> State:
        """Steps from `start` to `last`, which are `epochs` to callbacks; the state to keep."""
        self._run_steps(trainer, epochs)
        return trainer.state()

    def _keep_more(self, problem: Any, plan: Any) -> None:
        """Set further results once ``state_`` is there."""

    # -- what the base gives ---

    def plan(
        self,
        X: Any,
        y: Any = None,
        *,
        transport: str | None = None,
        client: Any = None,
        **data: Any,
    ) -> Any:
        """What a fit will do, without training: who has what, who sends what to whom.

        Parameters
        ----------
        X, y, **data
            As for ``fit``.
        transport : str, optional
            That the plan is made for; default: the one that the fit would have now.
        client : distributed.Client, optional
            As for ``fit``.

        Returns
        -------
        FitPlan
            Print its ``report()``; hand it to ``fit(X, plan=…)``, and nothing is cut twice.
        """
        self._refuse_unknown("plan", data)
        self._check_parameters()
        kept = self._latest() if self.resume else None  # as fit without a plan does
        seed = self._seed(kept)
        problem = self._reader()._problem(X, y, data, seed)
        plan = self._planned(problem, seed, transport, client, kept)
        return self._plan_of_fit(plan, problem)

    def load_plan(
        self,
        path: str | os.PathLike,
        X: Any,
        y: Any = None,
        *,
        transport: str | None = None,
        client: Any = None,
        **data: Any,
    ) -> Any:
        """The plan of an earlier run, from the file that its ``save`` wrote: nothing is cut.

        Parameters
        ----------
        path : path
        X, y, **data
            The data that it was made for, as for ``fit``.
        transport : str, optional
        client : distributed.Client, optional
            As for `plan`.

        Returns
        -------
        FitPlan
            The same messages, so that a fit has the same bits.

        Raises
        ------
        ReadError
            When `path` is absent, damaged, or no plan.
        InputError
            When it was made for other data or other parameters.
        """
        self._refuse_unknown("load_plan", data)
        self._check_parameters()
        saved = SavedPlan.load(path)
        planner = self._reader()
        problem = planner._problem(X, y, data, saved.random_state)
        self._check_plan(saved, problem)
        planner.n_ranks = saved.n_ranks
        for name, value in saved.decisions.items():
            setattr(planner, name, value)
        if saved.cut_again is not None:
            planner.partitioner = saved.cut_again
        plan = planner._planned(problem, saved.random_state, transport, client, None)
        same = ("settings", "partitioner", "weighed", "seconds")
        plan = replace(plan, **{name: getattr(saved, name) for name in same})
        return self._plan_of_fit(plan, problem)

    @property
    def history_(self) -> pd.DataFrame:
        """One row a step: what it measured and sent, and seconds; some are means over a run."""
        unit = self._state_class._unit
        return pd.DataFrame(self._fitted().history).rename(columns={"epoch": unit})

    @property
    def best_iteration_(self) -> int | None:
        """The step whose weights the model has, by `patience`; None: the last."""
        return self._fitted().best_epoch

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted model to the folder `path`, whole or not at all.

        Parameters
        ----------
        path : path
            A folder; replaced if it holds a model.

        Raises
        ------
        InputError
            When `path` is there and is no model, or a parameter or result cannot be saved.
        OSError
            When the disk refuses; names the space needed.
        """
        self._fitted()
        check_parameters(self)  # as `load` will
        save_model(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Read what `save` wrote: the same parameters, state and reports.

        Raises
        ------
        ReadError
            When `path` is absent, damaged, or holds another class of model.
        """
        return load_model(cls, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.two_d_array = self._takes_dense
        return tags

    def _fitted(self) -> Any:
        check_is_fitted(self, "state_")
        return self.state_

    # -- a fit, top down ---

    def _fit(
        self,
        X: Any,
        y: Any = None,
        *,
        plan: FitPlan | None = None,
        client: Any = None,
        one_step: bool = False,
        **data: Any,
    ) -> Self:
        """Check, plan, train, keep; `one_step` goes on from the last fit, as ``partial_fit``."""
        self._check_parameters()
        if plan is not None and not isinstance(plan, FitPlan):
            raise InputError(f"plan is a {type(plan).__name__}: give what plan(X) returned")
        self._check_checkpoints(one_step)
        kept = self._latest() if self.resume and not one_step else None
        seed = self._seed(kept) if plan is None else plan.random_state
        reader = self._reader(goes_on=one_step)
        if one_step:
            data["one_step"] = True
        problem = reader._problem(X, y, data, seed)
        going_on = None
        if kept is None and self._goes_on(one_step):
            going_on = self._going_on(self._of_today(self.state_).at_last(), problem)
        plan = self._plan_for_fit(plan, problem, seed, client, kept, one_step)
        warn_of_memory(plan.memory(), self.transport, client)
        start, last = self._beginning(one_step, problem, plan, kept, going_on)
        trainer = Trainer(
            self._connection(plan, client),
            partial(self._text, plan=plan, problem=problem, state=start),
            start,
            plan.n_ranks,
            plan.expected(),
            self._evaluation(problem),
            self._watch(),
        )
        own, history = self._own_callbacks(), [] if one_step else start.compared
        epochs = partial(
            epoch_contexts, self, start.epoch, last, X=problem, own=own, history=history
        )
        state: State | None = None
        try:
            state = self._train(trainer, problem, plan, start, last, epochs)
        except (KeyboardInterrupt, Exception):  # as one of a callback, whose disk is full
            trainer.rescue()
            raise
        finally:
            trainer.close()
            state = state or self._best_kept(trainer)
            if state is not start or kept is not None:  # else nothing new came of it
                self._keep(trainer, state, problem, plan, reader)
        return self

    def _plan_for_fit(
        self, plan: Any, problem: Problem, seed: int, client: Any, kept: Any, one_step: bool
    ) -> FitPlan:
        """The plan that was given, checked, or one that is made."""
        planner, given = copy(self), (problem, seed, None, client, kept)
        if plan is not None:
            self._check_plan(plan, problem)
        elif one_step:  # a cut must pay in this step, and none of a few rows is even
            planner.max_iter = 1
            with warnings.catch_warnings(action="ignore", category=BalanceWarning):
                plan = planner._planned(*given)
        else:
            plan = planner._planned(*given)
        return self._plan_of_fit(plan, problem)

    def _reader(self, goes_on: bool = False) -> Self:
        """What reads data and takes their features' number and names, which scikit-learn sets.

        A copy, so that this model stays whole where a plan is made, or a fit fails.
        """
        reader = copy(self)
        if not goes_on:
            for name in _OF_FEATURES:
                if hasattr(reader, name):
                    delattr(reader, name)
        return reader

    def _beginning(
        self,
        one_step: bool,
        problem: Problem,
        plan: FitPlan,
        kept: State | None,
        going_on: State | None,
    ) -> tuple[State, int]:
        """The state to begin from, and the last step; `going_on` is what `_going_on` gave."""
        settings = self._identity(problem, plan.n_ranks, plan.random_state)
        settings |= self._chosen(plan) | ({} if plan.weighed is None else {WEIGHED: plan.weighed})
        n_steps = 1 if one_step else self.max_iter
        if kept is not None:
            assert self.checkpoint_path is not None  # checked
            start = problem.named(kept.resumed_in(settings, self.patience, self.checkpoint_path))
            if kept.settings["n_ranks"] != plan.n_ranks:
                start = self._in_another_fit(start, settings)
            return replace(start, settings=settings), max(n_steps, kept.epoch)
        if going_on is not None:
            start = going_on.watched_in(settings, self.patience)
            if not going_on.is_of(settings):
                start = replace(self._in_another_fit(start, settings), begun_behind=start.epoch)
        else:
            start = self._first_state(problem, plan)
        return replace(start, settings=settings), start.epoch + n_steps

    def _goes_on(self, one_step: bool) -> bool:
        """Whether a fit begins at the state of the last one."""
        return (one_step or self.warm_start) and hasattr(self, "state_")

    def _best_kept(self, trainer: Trainer) -> State:
        """What is kept of a fit that did not end well."""
        return trainer.kept

    def _connection(self, plan: FitPlan, client: Any) -> Any:
        """What opens the session of a fit, and opens it anew after a loss."""
        return Connection(self.transport, plan.n_ranks, client)

    def _run_steps(self, trainer: Trainer, epochs: EpochContexts) -> None:
        with epochs() as running:
            while running.go_on() and not trainer.ran_out:
                rows = trainer.run(running.begin())
                running.done(rows, snapshot=trainer.state)

    def _keep(
        self, trainer: Trainer, state: State, problem: Problem, plan: FitPlan, reader: Self
    ) -> None:
        """Make a whole step the fitted state, also after an error or Ctrl-C."""
        if not state.epoch:
            return
        self.state_, self.n_iter_ = state.at_best(), state.epoch
        self.plan_report_ = report = plan.report()
        self.comm_report_: CommunicationReport = trainer.traffic.report(
            unit=state._unit,
            how=report.how,
            transport=trainer.transport,
            memory=trainer.memory,
            memory_expected=report.memory_of_ranks.tolist() if report.memory else [],
        )
        for name in _OF_FEATURES:
            if hasattr(reader, name):
                setattr(self, name, getattr(reader, name))
            elif hasattr(self, name):
                delattr(self, name)
        if problem.n_features is not None:
            self.n_features_in_ = problem.n_features
        self._keep_more(problem, plan)

    def _take(self, state: State, n_features: int) -> None:
        """Be fitted by a state of weights that were trained elsewhere."""
        self.state_, self.n_iter_, self.n_features_in_ = state, 0, n_features
        for name in ("feature_names_in_", "partition_", "plan_report_", "comm_report_"):
            self.__dict__.pop(name, None)  # of a fit before

    # -- parameters, plans, checkpoints ---

    def _check_parameters(self) -> None:
        """Refuse parameters that cannot be used, before anything is read or computed."""
        check_parameters(self)
        if self.resume and self.checkpoint_path is None:
            raise InputError("resume=True needs checkpoint_path, to know where to begin")
        if self.checkpoint_path is not None:
            self._checkpoints().check_folder()  # a path of another suffix is refused, too
        self._check()

    def _check_checkpoints(self, one_step: bool = False) -> None:
        """Refuse checkpoints of another fit before anything is read or planned (InputError)."""
        if self.checkpoint_path is not None and (one_step or not self.resume):
            done = self.state_.at_last().epoch if self._goes_on(one_step) else 0
            self._checkpoints().check_free(done)

    def _planned(
        self, problem: Any, seed: int, transport: str | None, client: Any, kept: Any
    ) -> Any:
        n_ranks = self._ranks_of_fit(problem, client, kept)
        if kept is not None:  # told before anything is cut: all but what the plan chooses is known
            assert self.checkpoint_path is not None  # checked
            known = kept.settings | self._identity(problem, n_ranks, seed)
            kept.check_resumes(known, self.checkpoint_path)
        plan = self._make_plan(
            problem,
            n_ranks,
            transport=expected_transport(transport or self.transport, n_ranks, client),
            random_state=seed,
            kept=kept,
        )
        return replace(
            plan,
            random_state=seed,
            settings=self._settings_of(self._decide_plan),
            fingerprint=problem.fingerprint(),
        )

    def _ranks_of_fit(self, problem: Any, client: Any, kept: State | None) -> int:
        """How many ranks; where it is not said, as a partition or a checkpoint already has it."""
        if self.n_ranks is not None:
            return int(self.n_ranks)
        n_parts = parts_given(getattr(self, "partitioner", None))
        if n_parts is not None:
            return n_parts
        if kept is not None:
            return int(kept.settings["n_ranks"])
        return max(1, int(min(self._default_ranks(client), self._most_ranks(problem))))

    def _seed(self, kept: State | None) -> int:
        """The seed as a number; a drawn one stays that of its checkpoints."""
        given = self.random_state
        if isinstance(given, Integral):
            return int(given)
        if kept is not None:
            return int(kept.settings["random_state"])
        return int(check_random_state(given).randint(np.iinfo(np.int32).max))

    def _check_plan(self, plan: FitPlan, problem: Problem) -> None:
        plan.check_fits(problem.fingerprint(), self._settings_of(self._decide_plan))
        for name, made in (("n_ranks", plan.n_ranks), ("random_state", plan.random_state)):
            given = getattr(self, name)
            if isinstance(given, Integral) and given != made:
                raise InputError(f"the plan was made with {name}={made}, the model has {given}")

    def _refuse_unknown(self, method: str, data: dict[str, Any]) -> None:
        """Data that ``fit`` does not take: TypeError, as Python gives it for ``fit``."""
        takes = inspect.signature(self.fit).parameters
        if any(each.kind is each.VAR_KEYWORD for each in takes.values()):
            return
        for name in data:
            if name not in takes or name == "plan":
                raise TypeError(f"{method}() got an unexpected keyword argument {name!r}")

    def _settings_of(self, names: Sequence[str]) -> dict[str, Any]:
        return {name: described(getattr(self, name)) for name in names}

    def _identity(self, problem: Problem, n_ranks: int, random_state: int) -> dict[str, Any]:
        """What must be equal for a resumed fit to be the same fit, but for what the plan chose."""
        return {
            **self._settings_of(self._decide_bits),
            "n_ranks": n_ranks,
            "random_state": random_state,
            **problem.identity(),
            VALIDATION: problem.fingerprint_of_validation(),
        }

    def _latest(self) -> State | None:
        """The last checkpoint."""
        kept = self._checkpoints().latest()
        return None if kept is None else self._of_today(kept)

    def _of_today(self, state: State) -> State:
        """A state, be it of an older version: a parameter that came later has its default."""
        parameters = inspect.signature(type(self)).parameters
        later = {name: described(parameters[name].default) for name in self._decide_bits}
        return replace(state, settings={**later, **state.settings})

    def _checkpoints(self) -> CheckpointWriter:
        assert self.checkpoint_path is not None  # checked
        return CheckpointWriter(self.checkpoint_path, self._state_class, self.checkpoint_every)

    @property
    def _tolerance(self) -> float:
        """By how little a step may change what is looked at for the fit to be done."""
        return float(self.tol)

    def _own_callbacks(self) -> list[EpochCallback]:
        own: list[EpochCallback] = []
        if self.checkpoint_path is not None:  # first: what progress tells is on the disk
            own.append(Checkpoint(self.checkpoint_path, self.checkpoint_every))
        if self.verbose:
            own.append(TrainingProgress(force=True))
        if self._tolerance_column is not None:
            own.append(Tolerance(self._tolerance, self._tolerance_column))
        return own

    def _most_ranks(self, problem: Any) -> float:
        """More ranks than these cannot share the problem out."""
        return math.inf
