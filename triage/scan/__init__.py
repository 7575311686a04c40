"""Reads an installed engine for defects: those that patches know, and the class that they are of."""
