"""Stand-ins for what a machine without GPUs lacks, so that the real SGLang sources can run here.

This package is put beside `sglang` in the service's environment. Nothing in `sglang` is changed.
See the README of the story for what is real and what is not.
"""
