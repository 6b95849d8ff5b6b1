"""`python -m graphlatent` is the command line."""

from graphlatent.cli import main

if __name__ == "__main__":
    main()
