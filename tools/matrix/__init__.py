"""The generated matrix of (operator, version, type) cases; tools/make_matrix.py is its command."""
