"""The commands of `daskpart`: cli.py declares the options, here is what they do.

terminal.py  what is printed, errors as one line, signals, exit codes
options.py   options, and those of an estimator          inputs.py    reading
cluster.py   --cluster none | threads | processes | mpi  mpi.py       one process speaks for all
fit.py       `daskpart fit MODEL`, with a module a model of MODELS; own.py for a class of a user;
             model.py    what these and the driver hand each other
use.py       `daskpart recommend`, `predict`             simulate.py  `daskpart simulate`
cut.py       `daskpart partition`, with compare.py and place.py       convert.py
page.py, pictures.py, templates/  what is written to look at
"""
