"""The commands of `daskpart`: cli.py declares the options, here is what they do.

terminal.py  what is printed, errors as one line, exit codes
cluster.py   --cluster none | threads | processes | mpi
ratings.py   reading the input, holding ratings out
fit_mf.py    `daskpart fit mf`            cut.py      `daskpart partition`
album.py     pictures, into files and into the report
"""
