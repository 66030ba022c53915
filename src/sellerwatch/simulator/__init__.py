"""A marketplace and a product server to practise on; ships with the product.

Start with `simulator.Simulator`; serve it with `http.serve`.
"""
