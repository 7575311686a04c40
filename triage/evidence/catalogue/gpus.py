"""GPUs: those of NVIDIA and AMD, and how they are connected.

    $ nvidia-smi topo -m
            GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
    GPU0     X      NV18    PIX     0-55            0               N/A
    GPU1    NV18     X      SYS     56-111          1               N/A
    NIC0    PIX     SYS      X
    (a legend)

Columns are parted by tabs; the heading can come underlined, also where nobody sees it. Older drivers call
network cards by their devices, `mlx5_0`, and have fewer columns after them.

These tools say on standard output what is wrong, some with exit status 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from triage.common.json import parse_json
from triage.evidence.model import MEBI, Query, Unanswered, failure_of
from triage.hosts.connection import Output

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU\d+")
ROCM = (
    "rocm-smi",
    "--showproductname",
    "--showuniqueid",
    "--showmeminfo",
    "vram",
    "--showdriverversion",
    "--json",
)
AMD = ("amd-smi", "static", "--asic", "--vram", "--driver", "--json")


@dataclass(frozen=True)
class Gpu:
    """One GPU. Memory in MiB, None where the driver does not tell."""

    name: str
    uuid: str
    memory_total: int | None
    memory_used: int | None


@dataclass(frozen=True)
class Gpus:
    driver: str
    cuda: str
    gpus: tuple[Gpu, ...]


@dataclass(frozen=True)
class GpuInventory(Query[Gpus]):
    """NVIDIA GPUs. Of one that is parted (MIG) each part that can be computed on, with its own memory.

    <nvidia_smi_log><driver_version>580.65.06</driver_version><cuda_version>13.0</cuda_version>
      <gpu id="..."><product_name>NVIDIA H200</product_name><uuid>GPU-...</uuid>
        <fb_memory_usage><total>143771 MiB</total><used>4 MiB</used>...
    """

    name: ClassVar[str] = "gpu-inventory"
    purpose: ClassVar[str] = "know the GPUs, their memory and the driver"
    absence: ClassVar[str] = "probes on the GPUs and the driver are missing"
    limit: ClassVar[int] = 4 * MEBI

    def argv(self) -> tuple[str, ...]:
        return ("nvidia-smi", "-q", "-x")

    def decode(self, output: Output) -> str:
        return tool_says(output)

    def parse(self, text: str) -> Gpus:
        from xml.etree import ElementTree

        if "<!ENTITY" in text:
            raise Unanswered("nvidia-smi's answer declares XML entities")
        try:
            root = ElementTree.fromstring(text)  # noqa: S314 - without entities
        except ElementTree.ParseError as error:
            said = said_instead(text) or f"nvidia-smi's answer is not XML: {error}"
            raise Unanswered(said) from None
        gpus = tuple(each for gpu in root.iter("gpu") for each in _devices(gpu))
        return Gpus(
            (root.findtext("driver_version") or "").strip(),
            (root.findtext("cuda_version") or "").strip(),
            gpus,
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

    def decode(self, output: Output) -> str:
        return tool_says(output)

    def parse(self, text: str) -> Topology:
        lines = [_ESCAPE.sub("", line).split("\t") for line in text.splitlines()]
        rows = [[cell.strip() for cell in line] for line in lines]
        heading = next((row for row in rows if any(_GPU.fullmatch(cell) for cell in row[1:])), None)
        if heading is None:
            raise Unanswered(said_instead(text) or "nvidia-smi shows no matrix of devices")
        devices = heading[1 : heading.index("CPU Affinity")] if "CPU Affinity" in heading else heading[1:]
        links: dict[tuple[str, str], str] = {}
        numa: dict[str, str] = {}
        for row in rows[rows.index(heading) + 1 :]:
            if row[0] not in devices:
                continue
            for device, cell in zip(heading[1:], row[1:], strict=False):
                if device in devices and device != row[0]:
                    links[row[0], device] = cell
                elif device == "NUMA Affinity" and cell:
                    numa[row[0]] = cell
        return Topology(links, numa)


@dataclass(frozen=True)
class RocmInventory(Query[Gpus]):
    """AMD GPUs; `cuda` is "". Where there is no rocm-smi, by amd-smi, its successor.

    {"card0": {"Unique ID": "0x...", "VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)":
      "297381888", "Card Series": "AMD Instinct MI300X"}, "system": {"Driver version": "6.10.5"}}

    {"gpu_data": [{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X", "asic_serial": "0x...", ...},
      "driver": {"name": "amdgpu", "version": "6.10.5"}, "vram": {"size": {"value": 196592, "unit": "MB"}}}]}
    """

    name: ClassVar[str] = "rocm-inventory"
    purpose: ClassVar[str] = "know the AMD GPUs, their memory and the driver"
    absence: ClassVar[str] = "a host without NVIDIA GPUs is one whose GPUs are not known"
    limit: ClassVar[int] = MEBI

    def argv(self) -> tuple[str, ...]:
        return ROCM

    def lesser(self) -> tuple[str, ...]:
        return AMD

    def decode(self, output: Output) -> str:
        return tool_says(output)

    def parse(self, text: str) -> Gpus:
        begins = re.search(r"^[{\[]", text, re.MULTILINE)  # warnings stand before it
        try:
            told = parse_json(text[begins.start() :] if begins else "")
            cards = told.get("gpu_data") if isinstance(told, dict) else told
            found = _of_rocm_smi(told) if cards is None else _of_amd_smi(cards)
        except (ValueError, TypeError, AttributeError, LookupError):
            said = said_instead(text)
            raise Unanswered(said or "the answer is not the JSON that was asked for") from None
        if not found.gpus:
            raise Unanswered("no AMD GPU is named")
        return found


def _devices(gpu: Element) -> Iterator[Gpu]:
    """What CUDA finds of a GPU: itself, or its parts."""
    name, uuid = ((gpu.findtext(tag) or "").strip() for tag in ("product_name", "uuid"))
    if (gpu.findtext("mig_mode/current_mig") or "").strip() != "Enabled":
        yield _gpu(name, uuid, gpu)
    for part in gpu.iterfind("mig_devices/mig_device"):
        yield _gpu(f"{name} MIG {(part.findtext('index') or '').strip()}".strip(), uuid, part)


def _gpu(name: str, uuid: str, place: Element) -> Gpu:
    total, used = (_of_mib(place.findtext(f"fb_memory_usage/{kind}")) for kind in ("total", "used"))
    return Gpu(name, uuid, total, used)


def tool_says(output: Output) -> str:
    """A GPU tool's answer. Raises Unanswered with what it says instead, which it prints on either stream."""
    text = output.stdout.decode("utf-8", "backslashreplace")
    if output.code != 0 and not output.cut:
        raise Unanswered((not output.stderr.strip() and said_instead(text)) or failure_of(output))
    return text


def said_instead(text: str) -> str:
    """The words of a tool that did not answer, in one line; "" where it said too much for that."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    is_answer = len(lines) > 4 or any(line[0] in "<{[" for line in lines)
    return "" if is_answer else " ".join(lines)[:300]


def _of_rocm_smi(told: Mapping[str, Any]) -> Gpus:
    cards = [name for name in told if re.fullmatch(r"card\d{1,4}", name)]
    gpus = tuple(_card(told[name]) for name in sorted(cards, key=lambda name: int(name[4:])))
    return Gpus(str(told.get("system", {}).get("Driver version", "")), "", gpus)


def _of_amd_smi(cards: Sequence[Mapping[str, Any]]) -> Gpus:
    asics = [card["asic"] for card in cards]
    sizes = [_size(card.get("vram", {})) for card in cards]
    gpus = tuple(
        Gpu(str(asic["market_name"]), str(asic.get("asic_serial", "")), size, None)
        for asic, size in zip(asics, sizes, strict=True)
    )
    drivers = [card.get("driver", {}) for card in cards]
    driver = next((str(each.get("version") or each.get("driver_version") or "") for each in drivers), "")
    return Gpus(driver, "", gpus)


def _size(vram: Mapping[str, Any]) -> int | None:
    """MiB, which amd-smi calls MB."""
    size = vram.get("size", vram.get("vram_size_mb"))
    value = size.get("value") if isinstance(size, dict) else size
    digits = str(value).removesuffix(" MB")
    return int(digits) if digits.isdecimal() and len(digits) < 20 else None


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


def _of_mib(text: str | None) -> int | None:
    number, _, unit = (text or "").strip().partition(" ")
    return int(number) if number.isdecimal() and unit == "MiB" else None
