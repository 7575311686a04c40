"""Machines we reach. The only package that talks to one."""
