"""The exercise of a service that is ready: does it answer, the same twice, and as it did before?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice

from triage.common.errors import UnreachableError
from triage.verify.load.client import Client, Completion, Reply
from triage.verify.model import Verification
from triage.verify.service.readiness import PROMPT

OTHER_PROMPT = "Water boils at a temperature of"
LONG_WORDS = ("One", "morning", "the", "river", "rose", "over", "its", "banks,", "and", "nobody", "slept.")
LONG_PROMPTS = (2000, 300)  # words; the next where one is refused
HARMLESS = ("status 400", "status 413", "status 422", "status 501", "timed out")  # it is asked for much
TOKENS = 16
PATIENCE = 15.0  # seconds that the service may take to answer before it is restarted
SHOWN = 60  # characters of an answer


@dataclass(frozen=True)
class Exercise:
    """The answers to a short and to a long question, and what is wrong with the service, "" for nothing."""

    sample: str
    long_sample: str = ""
    notes: tuple[str, ...] = ()
    failure: str = ""


def answer_before(client: Client) -> str:
    """What a service answers before it is restarted, "" when it does not."""
    try:
        (answer,) = client.complete((PROMPT,), TOKENS, timeout=PATIENCE).requests
    except UnreachableError:
        return ""
    return "" if answer.error else answer.text


def exercise(client: Client, like: Reply, earlier: str) -> Exercise:
    """Ask the same question twice, then beside another: some faults need the second, or two at once.

    Then with the probabilities of the tokens, and with a long prompt, which crosses chunks and stages.
    A server that refuses to be asked so, or takes long, has no fault. `earlier` is `answer_before`.
    """
    answers: list[Completion] = []
    for prompts in ((PROMPT,), (PROMPT,), (PROMPT, OTHER_PROMPT)):
        reply = client.complete(prompts, TOKENS, like=like, concurrency=len(prompts))
        for one in reply.requests:
            if one.error:
                which = "one request" if len(prompts) == 1 else "two requests at once"
                return Exercise("", failure=f"{which} failed: {one.error}")
        answers.append(reply.requests[0])
    sample = answers[0].text
    notes = list(_doubts(answers, like, earlier))
    failure = _wrong_inside(client, like)
    if failure:
        return Exercise(sample, "", tuple(notes), failure)
    for words in LONG_PROMPTS:
        prompt = " ".join(islice(cycle(LONG_WORDS), words))
        (long,) = client.complete((prompt,), TOKENS, like=like).requests
        if not long.error:
            return Exercise(sample, long.text, tuple(notes))
        if not long.error.startswith(HARMLESS):
            failure = f"a prompt of {words} words failed: {long.error}"
            return Exercise(sample, "", tuple(notes), failure)
    return Exercise(sample, "", (*notes, f"no long prompt was answered: {long.error}"))


def changed_answers(now: Verification, before: Verification | None) -> Iterator[str]:
    """What it answers otherwise than in the stored result, which a faster service must not."""
    if before is None:
        return
    for what, then, answer in (
        ("it answers", before.sample, now.sample),
        ("after a long prompt it answers", before.long_sample, now.long_sample),
    ):
        if then and answer and then != answer:
            yield f"{what} differently: {_short(then)} before, {_short(answer)} now"


def _doubts(answers: list[Completion], like: Reply, earlier: str) -> Iterator[str]:
    first, second, beside = (answer.text for answer in answers)
    if second != first:
        yield "the same question at temperature 0 was answered differently twice"
    elif beside != first:
        yield "the answer at temperature 0 changes when another request runs beside it"
    if earlier and earlier != first:
        yield f"before the restart the answer was {_short(earlier)}, now it is {_short(first)}"
    named = answers[-1].model
    if named != like.model:
        yield f"it was asked for model {like.model} and answered as {named or 'none'}"


def _wrong_inside(client: Client, like: Reply) -> str:
    """What is wrong with the probabilities of its tokens, "" for nothing."""
    (told,) = client.complete((PROMPT,), TOKENS, like=like, logprobs=True).requests
    if told.finite is False:
        return "the probabilities of its tokens are no numbers (NaN or infinite)"
    if told.error and not told.error.startswith(HARMLESS):
        return f"asked for the probabilities of its tokens it failed: {told.error}"
    return ""


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "...")
