"""`python -m conformance.reference --config FILE`."""

import sys

from conformance.reference.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
