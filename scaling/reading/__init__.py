"""Reading a table of runs, step by step; ``load`` puts the steps together for `scaling.table.load_runs`.

``formats`` and ``csvtext`` turn a source into names and cells, ``columns`` and ``match`` find out which
column is which quantity, ``decimals`` and `scaling.cells` read the numbers, ``understand`` and
``derive`` fill a ``draft``; ``losses``, ``scales``, ``bands``, ``groups``, ``repeats`` and ``checks``
look for what would make a law from it wrong.
"""
