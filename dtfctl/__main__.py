"""`python -m dtfctl`: the command line, where its script is not on the PATH."""

from dtfctl.cli.main import main

if __name__ == "__main__":
    main()
