"""What every model stands on: one estimator, one trainer, one form of state, plan, text and report.

    X ─► Problem ─► FitPlan ─► Text on a session ─► State ─► attributes, checkpoints, saved model
          data       who has     one run: as many      what is left, and what
          checked    what, who   steps as fit          a fit goes on from
                     sends what

A model is five small things; `docs/guide/own_model.md` builds one.

    estimator.py   DistributedEstimator: parameters and their constraints, what decides the bits
    problem.py     the data checked, its labels, its fingerprint
    plan.py        FitPlan: plain data; messages by label, expected traffic, memory a rank, a report
    text.py        Text: module-level functions `text(comm, *values, **static)`, run on every rank
    state.py       State: fields declared with how they lie (rows, replicated, labels, scalar)

The base gives plan, fit, partial_fit, warm start, resume, checkpoints, progress, callbacks, Ctrl-C,
lost workers, reports, save and load. Nothing here knows a model by name.
"""
