"""ooc_graph as a backend of networkx: its functions, for graphs of either library.

`info` is read when networkx is imported and imports nothing itself; `interface` has the functions.
"""
