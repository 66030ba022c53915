"""A simulated marketplace and product server for practice and tests; part of the product.

Start with `simulator.Simulator`; serve it with `http.serve`.
"""
