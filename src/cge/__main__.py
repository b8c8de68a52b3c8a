"""`python -m cge` is `cge`."""

from cge.cli import main

if __name__ == "__main__":
    main()
