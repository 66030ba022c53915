"""Every sentence the program says to a person about a refusal or a failure: one catalogue, by code.

An error carries its code and its facts; this module makes the sentence. Other languages are other catalogues with the
same keys. A code without a wording is a defect a test finds; at run time it is still said, plainly.
"""

from __future__ import annotations

from collections.abc import Mapping

ENGLISH: Mapping[str, str] = {
    "ILLEGAL_MOVE": "The {noun} {name} is {state}; to {verb} it must be {needs}.",
    "INVALID_ID": "'{given}' is not an id of the kind {kind}: it must be a UUID.",
    "INVALID_SELLER_ID": "A seller id must be 1 to {longest} printable characters, not '{given}'.",
    "INVALID_ITEM_NO": "An item number must be a positive whole number, not '{given}'.",
    "INVALID_INTERVAL": "A crawling interval in {unit} must be a whole number from 1 to {most}, not {amount}.",
    "UNREADABLE_INTERVAL": "'{given}' is not an interval: write a number and d or h, such as 1d or 6h.",
    "UNKNOWN_UNIT": "The unit of an interval is DAYS or HOURS, not '{given}'.",
    "INVALID_SELLER_NAME": "A seller's name must be 1 to {longest} characters.",
    "INVALID_PRODUCT_COUNT": "A product count cannot be negative ({given}).",
    "SELLER_NOT_FOUND": "There is no seller {seller_id}; `sellerwatch sellers list` shows those there are.",
    "SELLER_EXISTS": "The seller {seller_id} is registered already.",
    "SELLER_INACTIVE": "The seller {seller_id} is INACTIVE and is not crawled; activate it first.",
    "INVALID_REQUEST_URL": "'{given}' is not a request of the type {task_type}: it must hold {pattern}.",
    "TASK_NOT_FOUND": "There is no task {task_id}.",
    "RETRIES_SPENT": "The task {task_id} has spent its {retries} retries; an operator can reopen it.",
    "EXECUTION_NOT_FOUND": "There is no execution {execution_id}.",
    "EXECUTION_OVER": "The execution {execution_id} is {status} already; there is nothing to cancel.",
    "NOTHING_TO_RETRY": "The execution {execution_id} has no failed task; there is nothing to try again.",
    "CRAWL_IN_PROGRESS": "The seller {seller_id} is being crawled already, by execution {execution_id}.",
    "COUNTS_WRONG": "The counts of execution {execution_id} would be wrong: {problem}.",
    "EVENT_OUT_OF_ORDER": "{event} of item {item_no} is not due: it is {state} at version {version}.",
    "INVALID_PAYLOAD": "A message's payload must be one JSON object: {problem}.",
    "MESSAGE_NOT_FOUND": "There is no outbox message {outbox_id}.",
    "TRIES_SPENT": "The message {outbox_id} has failed for good after {tries} tries; replay or discard it.",
    "OUTBOX_PAUSED": "The {outbox} outbox is paused already, by {by}.",
    "NOTHING_TO_RESUME": "The {outbox} outbox is not paused and its circuit is not open; there is nothing to resume.",
    "NOTHING_TO_TELL": (
        "There is nothing to retry for the seller {seller_id}: the scheduler knows it, or is just being told."
    ),
    "NOTHING_CHOSEN": "Say which messages: their ids, or --all-failed, --seller, --type, --since, --until.",
    "CHOSEN_TWICE": "Give ids or a choice such as --all-failed, not both.",
    "UNREADABLE_TIME": (
        "'{given}' is not a time: write 2026-11-15, 2026-11-15T06:00 (UTC unless it says otherwise), or how long ago, "
        "such as 90m, 2h or 3d."
    ),
    "AGENT_NOT_FOUND": "There is no agent {agent}; `sellerwatch agents list` shows those there are.",
    "INVALID_AGENT_NAME": "'{given}' is not an agent: give its number (`sellerwatch agents list`) or its UUID.",
    "NO_TOKEN": "The agent {agent} has no token; it gets one when work waits for it.",
    "REMOVED_LATELY": (
        "That user agent was removed with requests in its window, which the marketplace still counts; add it after "
        "{again_at}."
    ),
    "UNREADABLE_REST": "'{given}' is not a time: write a number and s, m, h or d, such as 30m or 2h; at most 365d.",
    "UNKNOWN_LIMIT": "There is no limit '{given}'; write {known}.",
    "FIXED_SETTING": "{name} cannot be changed while it runs: set SELLERWATCH_{name} and start the service again.",
    "INVALID_LIMIT": "{name} cannot be '{value}': {problem}.",
    "NOT_OVERRIDDEN": "{name} was not changed by `limits set`; there is nothing to unset.",
    "AGENT_EXISTS": "There is an agent with that user-agent string already: {user_agent}",
    "INVALID_USER_AGENT": "A user-agent string must be 1 to {longest} printable ASCII characters.",
    "INVALID_SIGNING_SECRET": "A signing secret cannot be used: {problem}.",
    "INVALID_TOKEN": "That is not a sealed token: {problem}.",
    "PRODUCT_NOT_FOUND": "There is no product {product}; `sellerwatch products list` shows those there are.",
    "VERSION_NOT_FOUND": "Item {item_no} has no version {version} in its history; it has {known}.",
    "BODY_NOT_FOUND": "Item {item_no} has no such body kept: there are {kept} of {part}, the newest is number 1.",
    "PYARROW_MISSING": "Parquet needs the package pyarrow: pip install 'sellerwatch[parquet]', or export csv or jsonl.",
    "INVALID_TARGET": "It cannot be exported to {target}: {problem}.",
    "FILE_UNWRITABLE": "The file {path} cannot be written: {problem}.",
    "CASE_NOT_FOUND": "There is no quarantine case {case_id}; `sellerwatch quarantine list` shows those there are.",
    "REMOVAL_NOT_FOUND": "There is no removal {removal_id}; `sellerwatch removals list` shows those there are.",
    "INVALID_POLICY": "'{policy}' is no field policy: {problem}.",
    "INVALID_TEXT": "'{given}' is not text in UTF-8.",
    "INVALID_SETTINGS": "The settings have {number} fault(s):\n{listed}",
    "INVALID_DATABASE_URL": "SELLERWATCH_DATABASE_URL is wrong: {problem}.",
    "DATABASE_UNAVAILABLE": "The database {where} cannot be used: {problem}.",
    "PORT_IN_USE": "{host}:{port} is in use already; stop what listens there, or choose another port.",
    "ADDRESS_UNUSABLE": "{host}:{port} cannot be listened on: {problem}.",
    "UNKNOWN_PROFILE": "There is no chaos profile '{given}'; there are {known}.",
    "UNPARSABLE": "The {endpoint} answer cannot be read: {problem}.",
    "TRANSPORT_FAILED": "The request failed: {problem}.",
    "SCHEMA_MISSING": "The database has no schema yet; run: sellerwatch db upgrade",
    "SCHEMA_BEHIND": "The database's schema is at {current}, this program needs {head}; run: sellerwatch db upgrade",
    "SCHEMA_UNKNOWN": (
        "The database's schema is unknown to this program ({current}; it knows up to {head}): a newer sellerwatch or "
        "another program made it. Upgrade sellerwatch, or name another database."
    ),
    "SCHEMA_BUSY": (
        "Another process has been upgrading this database for more than {seconds} s; wait for it and run: "
        "sellerwatch db upgrade"
    ),
    "NO_SUCH_REVISION": "The database cannot go down to '{revision}'; it can go to {possible}, or one step with -1.",
    "KEY_FILE_UNUSABLE": "The key file {path} cannot be used: {problem}.",
    "NO_BUDGET": "No agent may make a request now; the next one may in about {seconds} s.",
    "MARKETPLACE_UNAVAILABLE": "The marketplace did not say how many products {seller_id} has: {problem}.",
    "LAST_EVENT_MISSING": "The last event of item {item_no} (version {version}) is not in the outbox any more.",
    "POOL_BREAKER_OPEN": (
        "Crawling is stopped: {available} of {total} agents are available ({percent} %); it is tried again in "
        "{seconds} s, or when enough agents are back (`sellerwatch agents status`)."
    ),
    "ROBOTS_FORBID": "The robots.txt disallows {path}, and SELLERWATCH_ROBOTS_CHECK is obey: nothing is crawled.",
    "INVALID_REQUEST": "The request cannot be read: {first}.",
    "INVALID_CURSOR": "'{given}' is not a cursor of this list; leave it out to begin anew.",
    "NO_SUCH_PATH": "There is nothing at this path; /docs shows what there is.",
    "METHOD_NOT_ALLOWED": "This path does not take this method; /docs shows which it takes.",
    "INTERNAL_ERROR": "Something broke inside; the log line {log_id} says what.",
    "NOT_LOGGED_IN": "A valid bearer token is needed; `sellerwatch auth token` makes one.",
    "TOKEN_EXPIRED": "The token has expired; get a new one.",
    "ROLE_NEEDED": "This needs the role {role}.",
    "WRONG_API_KEY": "A valid key is needed in the header X-API-Key.",
    "TOO_MANY_CALLS": "Too many requests from this address; the next may come in {seconds} s.",
    "BODY_TOO_LARGE": "The body is larger than 1 MB.",
    "PORT_UNUSABLE": "The API cannot listen on {address}: {problem}; set SELLERWATCH_HOST and SELLERWATCH_PORT.",
    "UNREADABLE_TTL": "'{given}' is no time for a token: write 30m, 12h or 7d, at most 365d.",
    "FOREIGN_PRODUCT": "Item {item_no} belongs to the seller {owner}, not to {seller_id}; it is left alone.",
}


CATALOGUES: Mapping[str, Mapping[str, str]] = {"en": ENGLISH}


def catalogue(language: str) -> Mapping[str, str]:
    """The sentences of a language; English for one that is not there."""
    return CATALOGUES.get(language, ENGLISH)


def word(code: str, facts: Mapping[str, object], catalogue: Mapping[str, str] = ENGLISH) -> str:
    """The sentence for a code and its facts."""
    template = catalogue.get(code)
    if template is None:
        shown = ", ".join(f"{name}={value}" for name, value in facts.items())
        return f"{code.capitalize().replace('_', ' ')}{f' ({shown})' if shown else ''}."
    return template.format_map({name: _shown(name, value) for name, value in facts.items()})


def _shown(name: str, value: object) -> object:
    """Lists as people say them (`a, b or c`), verbs without the underscore of their method."""
    if name == "verb":
        return str(value).replace("_", " ")
    if isinstance(value, tuple | list):
        texts = [str(v) for v in value]
        return " or ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]])) or "nothing"
    return value
