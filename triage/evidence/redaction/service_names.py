"""Secrets of services whose tokens have no shape of their own: what stands for one behind the service's name.

    ADAFRUIT_IO = "mvlz3bwlhkwzk0p_7_a3rp0eej9ni1nz"

Names that stand before hashes, versions and revisions in ordinary logs (github, gitlab, openai) are not among
them: where those have secrets, a word such as `key` or a shape gives them away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.evidence.redaction.named_secrets import LONG, QUOTES, Span, in_small_letters
from triage.evidence.redaction.word_search import Words

DIGITS = 3  # at least, in a value: a name of code has one or two
NAMES = (
    *("adafruit", "adobe", "airtable", "algolia", "alibaba", "artifactory", "asana", "atlassian"),
    *("beamer", "bintray", "bitbucket", "bittrex", "cloudflare", "codecov", "cohere", "coinbase"),
    *("confluence", "confluent", "contentful", "contribsys", "datadog", "discord", "dnkey", "droneci"),
    *("dropbox", "etsy", "facebook", "fastly", "finicity", "finnhub", "flickr", "freshbooks"),
    *("gitter", "gocardless", "heroku", "hubspot", "intercom", "jfrog", "jira", "kraken", "kucoin"),
    *("launchdarkly", "linear", "linked_in", "linkedin", "lob", "looker", "mailchimp", "mailgun"),
    *("mapbox", "mattermost", "meraki", "message-bird", "message_bird", "messagebird", "netlify"),
    *("new-relic", "new-york-times", "new_relic", "newrelic", "newyorktimes", "nytimes", "okta"),
    *("pagerduty", "plaid", "private_ai", "privateai", "rapidapi", "sendbird", "sentry", "snyk"),
    *("sonar", "squarespace", "sumo", "sumologic", "telegram", "travis", "twilio", "twitch"),
    *("twitter", "typeform", "xray", "yandex", "zendesk"),
)
_STANDING = Words(NAMES)
_JOINT = r"(?::{1,3}=|=>|\|\||\?=|[:=>,])"
_VALUE = re.compile(
    rf"[\w.,-]{{0,40}}?(?:{QUOTES})?[ \t]{{0,4}}{_JOINT}[ \t]{{0,4}}=?(?:{QUOTES}|`)?"
    r"([A-Za-z0-9_~.+%=-][A-Za-z0-9_~.+%/=:-]{11,255})(?=[\s\"'`;,\\})\]]|\Z)"
)


def of_services(text: str) -> Iterator[Span]:
    """Yield where values stand that the name of a service announces: letters and several digits."""
    lower = in_small_letters(text)
    for name in _STANDING.in_text(lower):
        at = lower.find(name)
        while at >= 0:
            if not lower[at - 1 : at].isalnum() or at == 0:
                match = _VALUE.match(text, at + len(name))
                if match and _is_token(match[1]):
                    yield match.span(1)
            at = lower.find(name, at + len(name))


def _is_token(value: str) -> bool:
    digits = sum(letter.isdecimal() for letter in value)
    several = digits >= DIGITS or (digits > 0 and value.islower() and len(value) >= LONG)
    return several and any(letter.isalpha() for letter in value) and "://" not in value
