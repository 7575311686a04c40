"""An import system in which every module that SGLang asks for exists.

Modules of `sglang` named real are loaded from their own files; every other one, and every package
that only `sglang` imports and that is not installed, becomes an `AbsentModule`, whose names take any
call, item, attribute, base class or decorator and amount to nothing.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from .real import is_real


class Absent:
    """A name that is not there: false, empty, and good for every use at import time."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__.setdefault(name, Absent(f"{self._name}.{name}"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], Absent):
            return args[0]  # used as a decorator
        return Absent(f"{self._name}()")

    def __repr__(self) -> str:
        return f"<absent {self._name}>"

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Any:
        return iter(())

    def __contains__(self, item: object) -> bool:
        return False

    def __getitem__(self, key: object) -> Absent:
        return Absent(f"{self._name}[]")

    def __or__(self, other: object) -> Absent:
        return self

    __ror__ = __or__

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __enter__(self) -> Absent:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


class AbsentModule(ModuleType):
    """A module, and a package, in which every name is absent unless it is a real module."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or is_real(f"{self.__name__}.{name}"):
            raise AttributeError(name)
        return self.__dict__.setdefault(name, Absent(f"{self.__name__}.{name}"))


class RealLoader(SourceFileLoader):
    """Runs a module's own file, then puts the stand-ins in the place of the names they stand for."""

    def __init__(self, name: str, path: str, values: dict[str, Any]) -> None:
        super().__init__(name, path)
        self._values = values

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        module.__dict__.update(self._values)


class AbsentLoader:
    """Makes an empty module that holds the stand-ins alone."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(self._values)


class Finder:
    """Decides for every import whether the real module or an absent one is given.

    `values`: for each module, the names that are replaced.
    """

    def __init__(self, values: dict[str, dict[str, Any]]) -> None:
        self._values = values

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        values = self._values.get(name, {})
        installed = PathFinder.find_spec(name, path)
        if is_real(name) and installed and installed.origin:
            installed.loader = RealLoader(name, installed.origin, values)
            return installed
        package = name.partition(".")[0]
        if package in sys.stdlib_module_names:
            return None
        if package != "sglang" and (installed or not _imported_by_sglang()):
            return None
        spec = ModuleSpec(name, AbsentLoader(values), is_package=True)  # type: ignore[arg-type]
        if installed and installed.submodule_search_locations:
            # Real modules below an absent package are found where they are.
            spec.submodule_search_locations = installed.submodule_search_locations
        return spec


def _imported_by_sglang() -> bool:
    """Whether the import statement that is being carried out stands in a module of `sglang`."""
    frame = sys._getframe(2)
    while frame and frame.f_globals.get("__name__", "").startswith("importlib._"):
        frame = frame.f_back  # type: ignore[assignment]
    return bool(frame) and frame.f_globals.get("__name__", "").partition(".")[0] == "sglang"


def install(values: dict[str, dict[str, Any]]) -> Finder:
    """Put a finder in front of all others."""
    finder = Finder(values)
    sys.meta_path.insert(0, finder)
    return finder
