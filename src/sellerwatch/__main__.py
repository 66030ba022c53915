"""`python -m sellerwatch` is `sellerwatch`."""

from sellerwatch.cli.main import main

if __name__ == "__main__":
    main()
