"""The steps of a playbook as its runner calls them: done on one host, shown as their commands show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triage.cli.reach import Reach
    from triage.hosts.inventory.model import Host
    from triage.playbook.model import Action, ActionResult, ConsentAsked
    from triage.workflows.steps import Step, StepContext


@contextmanager
def open_actions(
    reach: Reach, host: Host
) -> Iterator[tuple[Mapping[str, Action], Callable[[ConsentAsked], str]]]:
    """The actions over one connection to the host, closed afterwards; and what is to be known before one."""
    from triage.cli.bench import bench_listener
    from triage.cli.verify import interrupted, listener
    from triage.report.renderers import document
    from triage.workflows.steps import STEPS, StepContext, outlook_of

    with reach.connection(host) as connection:
        context = StepContext(connection, document, listener, bench_listener, interrupted(connection.name))
        actions = {name: partial(_act, context, step) for name, step in STEPS.items()}
        yield actions, partial(outlook_of, connection)


def _act(context: StepContext, step: Step, host: str, arguments: Mapping[str, Any]) -> ActionResult:
    from triage.playbook.model import ActionResult
    from triage.report.renderers import document, lines

    done = step(context, arguments)
    data = done.result if isinstance(done.result, Mapping) else document(done.result)
    detail = "\n".join(line.plain for shown in done.shown for line in lines(shown))
    return ActionResult(done.ok, data, done.summary, detail)
