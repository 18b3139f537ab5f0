"""A program in another network: `python -m square.run.enter NETWORK PARENT PROGRAM [ARGUMENT...]`.

Becomes the program once this process is in the network, and ends with its parent.
"""

import os
import sys

from square.errors import SquareError
from square.run import namespaces
from square.run.processes import die_with


def main() -> None:
    network, parent, *command = sys.argv[1:]
    die_with(int(parent))
    try:
        namespaces.enter(network)
        os.execvp(command[0], command)
    except (SquareError, OSError) as error:
        sys.exit(f"square: {command[0]} was not started in its network: {error}")


if __name__ == "__main__":
    main()
