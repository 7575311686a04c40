"""Stands in for SGLang's CUDA kernels, so that its sources import and serve on a CPU.

Every name is there, and raises when it is called. CUDA events and streams, which the pipeline's loop makes
on every device, do nothing.
"""

from __future__ import annotations

import contextlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import torch


class Absent:
    """A kernel that is not there, and whatever hangs on it."""

    def __init__(self, name):
        self._name = name
        self.__name__ = name.rpartition(".")[2]

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}")

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(f"{self._name} needs a GPU")


class AbsentModule(ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")


class Finder(MetaPathFinder, Loader):
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package=True) if name.startswith(f"{__name__}.") else None

    def create_module(self, spec):
        return AbsentModule(spec.name)

    def exec_module(self, module):
        pass


class Nothing:
    """An event and a stream of no device: always done."""

    device = torch.device("cpu")

    def __init__(self, *args, **kwargs):
        pass

    def _done(self, *args):
        return None

    record = wait = synchronize = wait_event = wait_stream = record_event = _done

    def query(self):
        return True

    def elapsed_time(self, other):
        return 0.0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Absent(f"{__name__}.{name}")


sys.meta_path.append(Finder())
if not torch.cuda.is_available():
    torch.cuda.Event = torch.cuda.Stream = Nothing
    torch.cuda.current_stream = Nothing
    torch.cuda.synchronize = lambda *args: None
    torch.cuda.stream = lambda stream: contextlib.nullcontext()
