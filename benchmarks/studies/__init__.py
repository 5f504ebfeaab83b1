"""Studies: scripts that write the tables and plots of the documentation.

    python -m benchmarks.studies.NAME --out docs/benchmarks

Each writes a section of the benchmarks page (NAME.md, with NAME.png where there is a plot) and all
its numbers (data/NAME.csv). What is written names the machine, the versions and the command.
"""
