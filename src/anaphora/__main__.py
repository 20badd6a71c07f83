"""``python -m anaphora`` is the ``anaphora`` command."""

from anaphora.cli.main import main

main()
