"""Stored results as text, and as `triage.history/1`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from triage.report.safe import safe_line
from triage.report.verification import VERDICTS, figure
from triage.verify.history import Listing
from triage.verify.load.metrics import medians
from triage.verify.model import Verification

TITLES = ("decode tok/s", "all tok/s", "TTFT ms", "start s")


def lines(listing: Listing) -> Iterator[Text]:
    store, names = listing.store, listing.names
    if not names:
        yield Text(f"no such result is stored in {safe_line(str(store.directory))}")
    for number, (host, deployment) in enumerate(names):
        if number:
            yield Text()
        yield Text(safe_line(f"{deployment} on {host}"), "bold")
        yield Text(f"  {'at':25}  " + "  ".join(f"{title:>12}" for title in TITLES), "dim")
        baseline = store.pinned(host, deployment)
        for result in store.read(host, deployment):
            cells = "  ".join(f"{figure(value):>12}" for value in medians(result).values())
            told = safe_line(", ".join((f"{result.engine} {result.version}", *result.patches)))
            mark = ("  baseline", "bold cyan") if result.at == baseline else ("", "")
            yield Text.assemble(
                f"  {safe_line(result.at):25}  {cells}  ",
                (f"{result.verdict:12}", VERDICTS[result.verdict]),
                (f"  {told}", "dim"),
                mark,
            )
        for lost in store.lost_baseline(host, deployment):
            yield Text(f"  note: {safe_line(lost)}", "yellow")


def document(listing: Listing) -> dict[str, Any]:
    """`triage.history/1`."""
    store = listing.store
    return {
        "schema": "triage.history/1",
        "deployments": [
            {
                "host": host,
                "deployment": deployment,
                "baseline": store.pinned(host, deployment) or None,
                "results": [_result(result) for result in store.read(host, deployment)],
            }
            for host, deployment in listing.names
        ],
    }


def _result(result: Verification) -> dict[str, Any]:
    return {
        "at": result.at,
        "engine": result.engine,
        "version": result.version,
        "patches": list(result.patches),
        "verdict": result.verdict,
        "reason": result.reason,
        **medians(result),
    }
