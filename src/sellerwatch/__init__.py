"""Sellerwatch keeps an external product server in step with marketplace sellers."""

__version__ = "0.1.0"
