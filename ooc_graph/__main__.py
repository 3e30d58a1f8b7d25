"""``python -m ooc_graph`` is the command."""

from ooc_graph.cli import main

if __name__ == "__main__":
    main()
