"""How GPUs are connected, and those of AMD.

    $ nvidia-smi topo -m
            GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
    GPU0     X      NV18    PIX     0-55            0               N/A
    GPU1    NV18     X      SYS     56-111          1               N/A
    NIC0    PIX     SYS      X
    (a legend)

Columns are parted by tabs; the heading can come underlined, also where nobody sees it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from triage.evidence.model import MEBI, Query, Unanswered
from triage.evidence.queries.machine import Gpu, Gpus
from triage.jsontext import parse_json

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_DEVICE = re.compile(r"(?:GPU|NIC)\d+|mlx\d+_\d+")
ROCM = (
    "rocm-smi",
    "--showproductname",
    "--showuniqueid",
    "--showmeminfo",
    "vram",
    "--showdriverversion",
    "--json",
)


@dataclass(frozen=True)
class Topology:
    """`links` has for each pair of devices how they are connected: `NV18`, `PIX`, `PHB`, `NODE`, `SYS`, ...

    `numa` has for each GPU the NUMA node of its processors, as it is printed.
    """

    links: Mapping[tuple[str, str], str]
    numa: Mapping[str, str]

    @property
    def kinds(self) -> Mapping[str, int]:
        """How many pairs of GPUs there are of each kind of connection."""
        found: dict[str, int] = {}
        for (one, other), kind in self.links.items():
            if one < other and one.startswith("GPU") and other.startswith("GPU"):
                found[kind] = found.get(kind, 0) + 1
        return found


@dataclass(frozen=True)
class GpuTopology(Query[Topology]):
    """How the NVIDIA GPUs and network cards of a host are connected."""

    name: ClassVar[str] = "gpu-topology"
    purpose: ClassVar[str] = "know by which links GPUs reach each other"
    absence: ClassVar[str] = "a case says nothing of how the GPUs are connected"
    limit: ClassVar[int] = MEBI

    def argv(self) -> tuple[str, ...]:
        return ("nvidia-smi", "topo", "-m")

    def parse(self, text: str) -> Topology:
        lines = [_ESCAPE.sub("", line).split("\t") for line in text.splitlines()]
        rows = [[cell.strip() for cell in line] for line in lines]
        heading = next((row for row in rows if any(_DEVICE.fullmatch(cell) for cell in row[1:])), None)
        if heading is None:
            raise Unanswered("nvidia-smi shows no matrix of devices")
        links: dict[tuple[str, str], str] = {}
        numa: dict[str, str] = {}
        for row in rows[rows.index(heading) + 1 :]:
            if not _DEVICE.fullmatch(row[0]):
                continue
            for device, cell in zip(heading[1:], row[1:], strict=False):
                if _DEVICE.fullmatch(device) and device != row[0]:
                    links[row[0], device] = cell
                elif device == "NUMA Affinity" and cell:
                    numa[row[0]] = cell
        return Topology(links, numa)


@dataclass(frozen=True)
class RocmInventory(Query[Gpus]):
    """AMD GPUs; `cuda` is "".

    {"card0": {"Unique ID": "0x...", "VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)":
      "297381888", "Card Series": "AMD Instinct MI300X"}, "system": {"Driver version": "6.10.5"}}
    """

    name: ClassVar[str] = "rocm-inventory"
    purpose: ClassVar[str] = "know the AMD GPUs, their memory and the driver"
    absence: ClassVar[str] = "a host without NVIDIA GPUs is one whose GPUs are not known"
    limit: ClassVar[int] = MEBI

    def argv(self) -> tuple[str, ...]:
        return ROCM

    def parse(self, text: str) -> Gpus:
        try:
            told = parse_json(text[text.find("{") :])  # warnings stand before it
            gpus = tuple(_card(told[name]) for name in sorted(told) if re.fullmatch(r"card\d+", name))
            driver = str(told.get("system", {}).get("Driver version", ""))
        except (ValueError, TypeError, AttributeError):
            raise Unanswered("rocm-smi's answer is not the JSON that was asked for") from None
        if not gpus:
            raise Unanswered("rocm-smi names no card")
        return Gpus(driver, "", gpus)


def _card(card: Mapping[str, object]) -> Gpu:
    values = {name.lower(): str(value).strip() for name, value in card.items()}  # `Card series` before 6.0
    return Gpu(
        values.get("card series", ""),
        values.get("unique id", ""),
        _mebibytes(values.get("vram total memory (b)", "")),
        _mebibytes(values.get("vram total used memory (b)", "")),
    )


def _mebibytes(text: str) -> int | None:
    return int(text) // MEBI if text.isdecimal() and len(text) < 20 else None
