"""Every sentence the program says to a person about a refusal or a failure: one catalogue, by code.

An error carries its code and its facts; this module makes the sentence. Each language is a catalogue with the same
keys and the same facts. A code without a wording is a defect a test finds; at run time it is still said, plainly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sellerwatch.kernel.failure import Failure

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
    "RUN_NOT_STARTED": (
        "The run of {seller_id} could not be started. {why} It waits; `sellerwatch serve` tries it again by itself,"
        " `sellerwatch crawl {seller_id}` at once."
    ),
    "COUNTS_WRONG": "The counts of execution {execution_id} would be wrong: {problem}.",
    "EVENT_OUT_OF_ORDER": "{event} of item {item_no} is not due: it is {state} at version {version}.",
    "INVALID_PAYLOAD": "A message's payload must be one JSON object: {problem}.",
    "MESSAGE_NOT_FOUND": "There is no outbox message {outbox_id}.",
    "TRIES_SPENT": "The message {outbox_id} has failed for good after {tries} tries; replay or discard it.",
    "OUTBOX_PAUSED": "The {outbox} outbox is paused already, by {by}.",
    "MARKETPLACE_ALREADY_PAUSED": "Requests to the marketplace are paused already, by {by}.",
    "MARKETPLACE_NOT_PAUSED": "Requests to the marketplace are not paused; there is nothing to resume.",
    "SELLER_ALREADY_PAUSED": "Requests for the seller {seller_id} are paused already, by {by}.",
    "SELLER_NOT_PAUSED": "Requests for the seller {seller_id} are not paused; there is nothing to resume.",
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
    "AUDIT_ENTRY_NOT_FOUND": "There is no entry {entry} on the audit trail.",
    "REMOVAL_NOT_FOUND": "There is no removal {removal_id}; `sellerwatch removals list` shows those there are.",
    "INVALID_POLICY": "'{policy}' is no field policy: {problem}.",
    "INVALID_TEXT": "'{given}' is not text in UTF-8.",
    "INVALID_SETTINGS": "The settings have {number} fault(s):\n{listed}",
    "INVALID_DATABASE_URL": "SELLERWATCH_DATABASE_URL is wrong: {problem}.",
    "DATABASE_UNAVAILABLE": "The database {where} cannot be used: {problem}.",
    "REDIS_UNAVAILABLE": "Redis at {where} cannot be used: {problem}.",
    "REDIS_EVICTS": (
        "Redis at {where} may throw our keys away when it is full (maxmemory-policy {policy}): set it to noeviction."
    ),
    "AWS_UNAVAILABLE": "{service} cannot be used: {problem}.",
    "QUEUE_MISSING": "There is no queue {queue} in SQS: run `sellerwatch aws setup`, or mend SELLERWATCH_{setting}.",
    "NO_DEAD_LETTERS": "Dead letters are SQS': SELLERWATCH_QUEUE is '{queue}', so there can be none.",
    "NOTHING_IN_AWS": "Nothing of AWS is in use: SELLERWATCH_QUEUE is not sqs, SELLERWATCH_SCHEDULER not eventbridge.",
    "NO_RULES": "Rules are EventBridge's: SELLERWATCH_SCHEDULER is '{scheduler}', so there are none to compare.",
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
    "LOGIN_NEEDED": "You are not logged in; log in at /login.",
    "FORGED_FORM": "This form was not sent by a page of yours, or you logged in anew since: load the page again.",
    "WRONG_API_KEY": "A valid key is needed in the header X-API-Key.",
    "TOO_MANY_CALLS": "Too many requests from this address; the next may come in {seconds} s.",
    "BODY_TOO_LARGE": "The body is larger than 1 MB.",
    "PORT_UNUSABLE": "The API cannot listen on {address}: {problem}; set SELLERWATCH_HOST and SELLERWATCH_PORT.",
    "UNREADABLE_TTL": "'{given}' is no time for a token: write 30m, 12h or 7d, at most 365d.",
    "FOREIGN_PRODUCT": "Item {item_no} belongs to the seller {owner}, not to {seller_id}; it is left alone.",
    "USER_NOT_FOUND": "There is no user {name}; `sellerwatch auth user list` shows those there are.",
    "USER_EXISTS": "There is a user {name} already.",
    "INVALID_USER_NAME": (
        "'{given}' is no name for a user: 1 to 64 small letters, digits and . _ @ -, a letter or digit first."
    ),
    "INVALID_PASSWORD": "A password must be {shortest} to {longest} printable characters and not the user's name.",
    "PASSWORDS_DIFFER": "The two passwords differ; nothing was changed.",
    "NO_PASSWORD": "No password was given: type it at the prompt, or pipe it in as one line.",
    "WRONG_LOGIN": "User or password is wrong.",
    "TOO_MANY_LOGINS": "Too many failed log-ins; the next try may come in {seconds} s.",
    "LOGINS_BUSY": "Too many people are logging in at this moment; try again in {seconds} s.",
    "PASSWORD_MUST_CHANGE": "This password was for once: choose another by POST /api/v1/auth/password.",
    "INVALID_IDEMPOTENCY_KEY": "An Idempotency-Key must be 1 to {longest} printable ASCII characters.",
    "IDEMPOTENCY_KEY_USED": "This Idempotency-Key was used for another request; take a new one.",
    "REQUEST_UNDER_WAY": "The first request with this Idempotency-Key is still being worked on.",
    "OUTCOME_UNKNOWN": (
        "The first request with this Idempotency-Key was cut off, and nobody knows how far it came: look, then use a "
        "new key."
    ),
    "TOO_MANY_STREAMS": "There are {most} open streams already; try again later.",
}

#: Facts stand where no particle has to follow their last sound: `{x}` is quoted, or followed by a noun of our own.
KOREAN: Mapping[str, str] = {
    "ILLEGAL_MOVE": "{noun} {name}: 지금 상태는 {state}입니다. {verb} 작업은 {needs} 상태에서만 할 수 있습니다.",
    "INVALID_ID": "'{given}' 값은 {kind} 종류의 ID가 아닙니다. UUID여야 합니다.",
    "INVALID_SELLER_ID": "판매자 ID는 출력 가능한 문자 1~{longest}자여야 합니다. 받은 값: '{given}'.",
    "INVALID_ITEM_NO": "상품 번호는 양의 정수여야 합니다. 받은 값: '{given}'.",
    "INVALID_INTERVAL": "{unit} 단위의 수집 주기는 1~{most} 사이의 정수여야 합니다. 받은 값: {amount}.",
    "UNREADABLE_INTERVAL": "'{given}' 값은 주기가 아닙니다. 1d, 6h처럼 숫자와 d 또는 h로 적으십시오.",
    "UNKNOWN_UNIT": "주기의 단위는 DAYS 또는 HOURS입니다. 받은 값: '{given}'.",
    "INVALID_SELLER_NAME": "판매자 이름은 1~{longest}자여야 합니다.",
    "INVALID_PRODUCT_COUNT": "상품 수는 음수일 수 없습니다({given}).",
    "SELLER_NOT_FOUND": "판매자 {seller_id}: 등록되어 있지 않습니다. 목록은 `sellerwatch sellers list`에 있습니다.",
    "SELLER_EXISTS": "판매자 {seller_id}: 이미 등록되어 있습니다.",
    "SELLER_INACTIVE": "판매자 {seller_id}: INACTIVE 상태라 수집하지 않습니다. 먼저 활성화하십시오.",
    "INVALID_REQUEST_URL": "'{given}' 값은 {task_type} 종류의 요청이 아닙니다. 다음 형식이어야 합니다: {pattern}.",
    "TASK_NOT_FOUND": "작업 {task_id}: 찾을 수 없습니다.",
    "RETRIES_SPENT": "작업 {task_id}: 재시도 {retries}회를 모두 썼습니다. 운영자가 다시 열 수 있습니다.",
    "EXECUTION_NOT_FOUND": "실행 {execution_id}: 찾을 수 없습니다.",
    "EXECUTION_OVER": "실행 {execution_id}: 이미 {status} 상태라 취소할 것이 없습니다.",
    "NOTHING_TO_RETRY": "실행 {execution_id}: 실패한 작업이 없어 다시 시도할 것이 없습니다.",
    "CRAWL_IN_PROGRESS": "판매자 {seller_id}: 이미 수집 중입니다(실행 {execution_id}).",
    "RUN_NOT_STARTED": (
        "판매자 {seller_id}: 실행을 시작하지 못했습니다. {why} 실행은 대기 중입니다. `sellerwatch serve`가 자동으로"
        " 다시 시도하며, `sellerwatch crawl {seller_id}`로 바로 다시 시도할 수 있습니다."
    ),
    "COUNTS_WRONG": "실행 {execution_id}: 집계가 어긋나게 됩니다. {problem}.",
    "EVENT_OUT_OF_ORDER": "상품 {item_no}: {event} 이벤트의 차례가 아닙니다. 상태 {state}, 버전 {version}.",
    "INVALID_PAYLOAD": "메시지의 내용은 JSON 객체 하나여야 합니다. {problem}.",
    "MESSAGE_NOT_FOUND": "아웃박스 메시지 {outbox_id}: 찾을 수 없습니다.",
    "TRIES_SPENT": "메시지 {outbox_id}: {tries}회 시도 끝에 실패했습니다. 다시 보내거나 버리십시오.",
    "AGENT_NOT_FOUND": "에이전트 {agent}: 찾을 수 없습니다. `sellerwatch agents list`로 목록을 볼 수 있습니다.",
    "INVALID_AGENT_NAME": "'{given}' 값은 에이전트가 아닙니다. 번호(`sellerwatch agents list`) 또는 UUID를 적으십시오.",
    "NO_TOKEN": "에이전트 {agent}: 토큰이 없습니다. 할 일이 생기면 받습니다.",
    "REMOVED_LATELY": (
        "그 user agent는 창에 요청이 남은 채 제거되었고 마켓플레이스가 아직 세고 있습니다. 다음 시각 이후에 "
        "추가하십시오: {again_at}."
    ),
    "UNREADABLE_REST": "'{given}' 값은 시간이 아닙니다. 30m, 2h처럼 숫자와 s, m, h, d로 적으십시오. 최대 365d입니다.",
    "UNKNOWN_LIMIT": "'{given}' 한도는 없습니다. 쓸 수 있는 이름: {known}.",
    "FIXED_SETTING": "{name} 설정은 실행 중에 바꿀 수 없습니다. SELLERWATCH_{name} 값을 정하고 다시 시작하십시오.",
    "INVALID_LIMIT": "{name} 설정에 '{value}' 값을 쓸 수 없습니다. {problem}.",
    "NOT_OVERRIDDEN": "{name} 설정은 `limits set`으로 바뀐 적이 없어 되돌릴 것이 없습니다.",
    "AGENT_EXISTS": "같은 user-agent 문자열의 에이전트가 이미 있습니다: {user_agent}",
    "INVALID_USER_AGENT": "user-agent 문자열은 출력 가능한 ASCII 문자 1~{longest}자여야 합니다.",
    "INVALID_SIGNING_SECRET": "서명 비밀값을 쓸 수 없습니다. {problem}.",
    "INVALID_TOKEN": "봉인된 토큰이 아닙니다. {problem}.",
    "PRODUCT_NOT_FOUND": "상품 {product}: 찾을 수 없습니다.",
    "CASE_NOT_FOUND": "격리 건 {case_id}: 찾을 수 없습니다. `sellerwatch quarantine list`로 목록을 볼 수 있습니다.",
    "AUDIT_ENTRY_NOT_FOUND": "감사 로그에 {entry}번 항목이 없습니다.",
    "REMOVAL_NOT_FOUND": "삭제 건 {removal_id}: 찾을 수 없습니다. `sellerwatch removals list`로 목록을 볼 수 있습니다.",
    "INVALID_POLICY": "'{policy}' 값은 필드 정책이 아닙니다. {problem}.",
    "INVALID_TEXT": "'{given}' 값은 UTF-8 텍스트가 아닙니다.",
    "INVALID_SETTINGS": "설정에 잘못된 곳이 {number}군데 있습니다.\n{listed}",
    "INVALID_DATABASE_URL": "SELLERWATCH_DATABASE_URL 값이 잘못되었습니다. {problem}.",
    "DATABASE_UNAVAILABLE": "데이터베이스 {where}: 사용할 수 없습니다. {problem}.",
    "REDIS_UNAVAILABLE": "Redis {where}: 사용할 수 없습니다. {problem}.",
    "REDIS_EVICTS": (
        "Redis {where}: 가득 차면 키를 버릴 수 있습니다(maxmemory-policy {policy}). noeviction으로 바꾸십시오."
    ),
    "AWS_UNAVAILABLE": "{service}: 사용할 수 없습니다. {problem}.",
    "QUEUE_MISSING": (
        "SQS 큐 {queue}: 없습니다. `sellerwatch aws setup`을 실행하거나 SELLERWATCH_{setting} 값을 고치십시오."
    ),
    "NO_DEAD_LETTERS": "데드 레터는 SQS에만 있습니다. SELLERWATCH_QUEUE 값이 '{queue}'이므로 있을 수 없습니다.",
    "NOTHING_IN_AWS": "AWS를 쓰지 않습니다. SELLERWATCH_QUEUE가 sqs도, SELLERWATCH_SCHEDULER가 eventbridge도 아닙니다.",
    "NO_RULES": "규칙은 EventBridge에만 있습니다. SELLERWATCH_SCHEDULER 값이 '{scheduler}'이므로 비교할 것이 없습니다.",
    "PORT_IN_USE": "{host}:{port} 주소는 이미 쓰이고 있습니다. 그 프로그램을 멈추거나 다른 포트를 고르십시오.",
    "ADDRESS_UNUSABLE": "{host}:{port} 주소에서 수신할 수 없습니다. {problem}.",
    "UNKNOWN_PROFILE": "'{given}' 혼돈 프로필은 없습니다. 쓸 수 있는 이름: {known}.",
    "UNPARSABLE": "{endpoint} 응답을 읽을 수 없습니다. {problem}.",
    "TRANSPORT_FAILED": "요청이 실패했습니다. {problem}.",
    "SCHEMA_MISSING": "데이터베이스에 아직 스키마가 없습니다. 실행하십시오: sellerwatch db upgrade",
    "SCHEMA_BEHIND": (
        "데이터베이스의 스키마는 {current}, 이 프로그램이 필요로 하는 것은 {head}입니다. 실행하십시오: "
        "sellerwatch db upgrade"
    ),
    "SCHEMA_UNKNOWN": (
        "이 프로그램이 모르는 스키마입니다({current}, 아는 것은 {head}까지). 더 새로운 sellerwatch나 다른 프로그램이 "
        "만든 것입니다. sellerwatch를 올리거나 다른 데이터베이스를 지정하십시오."
    ),
    "SCHEMA_BUSY": (
        "다른 프로세스가 {seconds}초 넘게 이 데이터베이스를 올리고 있습니다. 끝나기를 기다려 실행하십시오: "
        "sellerwatch db upgrade"
    ),
    "NO_SUCH_REVISION": "'{revision}' 단계로 내려갈 수 없습니다. 갈 수 있는 곳: {possible}, 또는 -1로 한 단계.",
    "KEY_FILE_UNUSABLE": "키 파일 {path}: 쓸 수 없습니다. {problem}.",
    "LAST_EVENT_MISSING": "상품 {item_no}: 마지막 이벤트(버전 {version})가 아웃박스에 더 이상 없습니다.",
    "POOL_BREAKER_OPEN": (
        "수집이 멈춰 있습니다. 에이전트 {total}개 중 {available}개만 쓸 수 있습니다({percent}%). {seconds}초 뒤, 또는 "
        "충분한 에이전트가 돌아오면 다시 시도합니다(`sellerwatch agents status`)."
    ),
    "ROBOTS_FORBID": (
        "robots.txt가 {path} 경로를 금하고 SELLERWATCH_ROBOTS_CHECK 값이 obey이므로 아무것도 수집하지 않습니다."
    ),
    "INVALID_REQUEST": "요청을 읽을 수 없습니다. {first}.",
    "NO_SUCH_PATH": "이 경로에는 아무것도 없습니다. 무엇이 있는지는 /docs에 있습니다.",
    "METHOD_NOT_ALLOWED": "이 경로는 그 메서드를 받지 않습니다. 받는 메서드는 /docs에 있습니다.",
    "INTERNAL_ERROR": "내부에서 문제가 생겼습니다. 로그의 {log_id} 줄에 까닭이 있습니다.",
    "NOT_LOGGED_IN": "유효한 bearer 토큰이 필요합니다. `sellerwatch auth token`으로 만들 수 있습니다.",
    "TOKEN_EXPIRED": "토큰이 만료되었습니다. 새로 받으십시오.",
    "LOGIN_NEEDED": "로그인하지 않았습니다. /login에서 로그인하십시오.",
    "FORGED_FORM": "이 양식은 지금 로그인한 페이지에서 보낸 것이 아닙니다. 페이지를 새로 여십시오.",
    "ROLE_NEEDED": "{role} 역할이 필요합니다.",
    "WRONG_API_KEY": "X-API-Key 헤더에 유효한 키가 필요합니다.",
    "TOO_MANY_CALLS": "이 주소에서 온 요청이 너무 많습니다. {seconds}초 뒤에 다시 보내십시오.",
    "BODY_TOO_LARGE": "본문이 1 MB보다 큽니다.",
    "PORT_UNUSABLE": (
        "API가 {address} 주소에서 수신할 수 없습니다. {problem}. SELLERWATCH_HOST와 SELLERWATCH_PORT를 정하십시오."
    ),
    "UNREADABLE_TTL": "'{given}' 값은 토큰의 유효 시간이 아닙니다. 30m, 12h, 7d처럼 적으십시오. 최대 365d입니다.",
    "FOREIGN_PRODUCT": "상품 {item_no}: 판매자 {seller_id} 것이 아니라 판매자 {owner} 것이므로 건드리지 않습니다.",
    "USER_NOT_FOUND": "사용자 {name}: 찾을 수 없습니다. 목록은 `sellerwatch auth user list`에 있습니다.",
    "USER_EXISTS": "사용자 {name}: 이미 있습니다.",
    "INVALID_USER_NAME": (
        "'{given}' 값은 사용자 이름이 아닙니다. 영문 소문자나 숫자로 시작하고 소문자, 숫자, . _ @ - 만 쓴 1~64자여야 "
        "합니다."
    ),
    "INVALID_PASSWORD": "비밀번호는 출력 가능한 문자 {shortest}~{longest}자여야 하고 사용자 이름과 달라야 합니다.",
    "PASSWORDS_DIFFER": "두 비밀번호가 다릅니다. 아무것도 바꾸지 않았습니다.",
    "NO_PASSWORD": "비밀번호가 없습니다. 물음에 답해 입력하거나 한 줄로 파이프해 주십시오.",
    "WRONG_LOGIN": "사용자 또는 비밀번호가 잘못되었습니다.",
    "TOO_MANY_LOGINS": "로그인 실패가 너무 많습니다. {seconds}초 뒤에 다시 시도하십시오.",
    "LOGINS_BUSY": "지금 로그인하는 사람이 너무 많습니다. {seconds}초 뒤에 다시 시도하십시오.",
    "PASSWORD_MUST_CHANGE": "한 번만 쓰는 비밀번호입니다. POST /api/v1/auth/password로 새 비밀번호를 정하십시오.",
    "INVALID_IDEMPOTENCY_KEY": "Idempotency-Key 값은 출력 가능한 ASCII 문자 1~{longest}자여야 합니다.",
    "IDEMPOTENCY_KEY_USED": "이 Idempotency-Key 값은 다른 요청에 쓰였습니다. 새 값을 쓰십시오.",
    "REQUEST_UNDER_WAY": "이 Idempotency-Key 값의 첫 요청을 아직 처리하고 있습니다.",
    "OUTCOME_UNKNOWN": (
        "이 Idempotency-Key 값의 첫 요청이 도중에 끊겨 어디까지 되었는지 알 수 없습니다. 확인한 뒤 새 값을 쓰십시오."
    ),
    "TOO_MANY_STREAMS": "열린 스트림이 이미 {most}개입니다. 나중에 다시 시도하십시오.",
    "BODY_NOT_FOUND": "상품 {item_no}: 보관된 본문이 없습니다. {part} 본문은 {kept}개이며 가장 새 것이 1번입니다.",
    "CHOSEN_TWICE": "ID 또는 --all-failed 같은 선택 조건 중 하나만 지정하십시오.",
    "FILE_UNWRITABLE": "파일 {path}: 쓸 수 없습니다. {problem}.",
    "INVALID_CURSOR": "'{given}' 값은 이 목록의 커서가 아닙니다. 처음부터 보려면 빼고 요청하십시오.",
    "INVALID_TARGET": "{target}: 내보낼 수 없습니다. {problem}.",
    "NOTHING_CHOSEN": "대상 메시지를 지정하십시오. ID 또는 --all-failed, --seller, --type, --since, --until.",
    "NOTHING_TO_RESUME": "{outbox} 아웃박스: 멈춰 있지 않고 차단기도 열려 있지 않아 재개할 것이 없습니다.",
    "NOTHING_TO_TELL": "판매자 {seller_id}: 다시 시도할 것이 없습니다. 스케줄러가 이미 알고 있거나 지금 전달 중입니다.",
    "OUTBOX_PAUSED": "{outbox} 아웃박스: 이미 멈춰 있습니다. 멈춘 사람: {by}.",
    "MARKETPLACE_ALREADY_PAUSED": "마켓플레이스 요청이 이미 일시 중지되어 있습니다. 중지한 사람: {by}.",
    "MARKETPLACE_NOT_PAUSED": "마켓플레이스 요청이 일시 중지되어 있지 않아 재개할 것이 없습니다.",
    "SELLER_ALREADY_PAUSED": "판매자 {seller_id}: 요청이 이미 일시 중지되어 있습니다. 중지한 사람: {by}.",
    "SELLER_NOT_PAUSED": "판매자 {seller_id}: 요청이 일시 중지되어 있지 않아 재개할 것이 없습니다.",
    "PYARROW_MISSING": (
        "Parquet에는 pyarrow 패키지가 필요합니다. pip install 'sellerwatch[parquet]' 명령으로 설치하거나 "
        "csv, jsonl로 내보내십시오."
    ),
    "UNREADABLE_TIME": (
        "'{given}' 값은 시각이 아닙니다. 2026-11-15, 2026-11-15T06:00(별도 표기가 없으면 UTC) 또는 "
        "90m, 2h, 3d처럼 얼마 전인지 적으십시오."
    ),
    "VERSION_NOT_FOUND": "상품 {item_no}: 이력에 없는 버전입니다: {version}. 있는 버전: {known}.",
}

CATALOGUES: Mapping[str, Mapping[str, str]] = {"en": ENGLISH, "ko": KOREAN}

#: Why a task or a run failed, or waits: by the code of `kernel/failure.py`.
FAILURES_ENGLISH: Mapping[str, str] = {
    "TOO_MANY_REQUESTS": "The marketplace answered 429: too many requests.",
    "TOKEN_REJECTED": "The marketplace answered {status}: the agent's token was rejected.",
    "FRESH_TOKEN_REJECTED": "The marketplace answered {status}: it rejects this agent even with a new token.",
    "PRODUCT_GONE": "The marketplace answered 404: it has no such page.",
    "BAD_REQUEST": "The marketplace answered 400: the request was malformed.",
    "REFUSED": "The marketplace answered {status}, which is not an answer that can be used.",
    "SERVER_ERROR": "The marketplace answered {status}: an error on its side.",
    "NO_TOKEN_GIVEN": "The marketplace answered {status} without giving a token.",
    "UNREACHABLE": "The marketplace cannot be reached ({detail}).",
    "TIMED_OUT": "The marketplace did not answer in time ({detail}).",
    "CONNECTION_DROPPED": "The marketplace dropped the connection ({detail}).",
    "ANSWER_TOO_LARGE": "The marketplace's answer is larger than what is accepted ({detail}).",
    "UNREADABLE": "The {endpoint} answer cannot be read: {detail}.",
    "NO_SESSION": "No agent has a token and none could be had: {detail}",
    "NO_FREE_AGENT": "No agent may make a request now; the next one may in about {seconds} s.",
    "CIRCUIT_OPEN": (
        "The marketplace's {endpoint} endpoint does not answer; it is asked again from time to time. {detail}"
    ),
    "POOL_BREAKER_OPEN": "Too few agents are available ({rate} %); crawling waits until more are.",
    "MARKETPLACE_PAUSED": "Requests to the marketplace are paused.",
    "RUN_PAUSED": "The run is paused: {detail}",
    "REQUEST_LIMIT": "{requests} requests were made for this task in this run, the last: {detail}",
    "WORKER_LOST": "Its worker vanished {times} times in a row while working on it.",
    "CANCELLED": "Cancelled.",
    "SELLER_DEACTIVATED": "Cancelled, because the seller was deactivated.",
    "RUN_ENDED": "The run had ended.",
    "DEADLINE_PASSED": "The run passed its deadline.",
    "OVERTAKEN": "It could not be started before the next run was due: {detail}",
    "INTERNAL": "An error of our own ({detail}).",
    "RECORDED": "{text}",
}

FAILURES_KOREAN: Mapping[str, str] = {
    "TOO_MANY_REQUESTS": "마켓플레이스 응답 429: 요청이 너무 많습니다.",
    "TOKEN_REJECTED": "마켓플레이스 응답 {status}: 에이전트의 토큰이 거부되었습니다.",
    "FRESH_TOKEN_REJECTED": "마켓플레이스 응답 {status}: 새 토큰으로도 이 에이전트를 거부합니다.",
    "PRODUCT_GONE": "마켓플레이스 응답 404: 없는 페이지입니다.",
    "BAD_REQUEST": "마켓플레이스 응답 400: 요청 형식이 잘못되었습니다.",
    "REFUSED": "마켓플레이스 응답 {status}: 사용할 수 없는 응답입니다.",
    "SERVER_ERROR": "마켓플레이스 응답 {status}: 서버 오류입니다.",
    "NO_TOKEN_GIVEN": "마켓플레이스 응답 {status}: 토큰을 주지 않았습니다.",
    "UNREACHABLE": "마켓플레이스에 연결할 수 없습니다({detail}).",
    "TIMED_OUT": "마켓플레이스가 제시간에 응답하지 않았습니다({detail}).",
    "CONNECTION_DROPPED": "마켓플레이스가 연결을 끊었습니다({detail}).",
    "ANSWER_TOO_LARGE": "마켓플레이스의 응답이 허용 크기를 넘습니다({detail}).",
    "UNREADABLE": "{endpoint} 응답을 해석할 수 없습니다. {detail}.",
    "NO_SESSION": "토큰을 가진 에이전트가 없고 새로 받을 수도 없습니다. {detail}",
    "NO_FREE_AGENT": "지금 요청할 수 있는 에이전트가 없습니다. 약 {seconds}초 뒤에 가능합니다.",
    "CIRCUIT_OPEN": "마켓플레이스의 {endpoint} 엔드포인트가 응답하지 않아 간격을 두고 다시 확인합니다. {detail}",
    "POOL_BREAKER_OPEN": "사용 가능한 에이전트가 부족합니다({rate}%). 늘어날 때까지 수집을 기다립니다.",
    "MARKETPLACE_PAUSED": "마켓플레이스 요청이 일시 중지되어 있습니다.",
    "RUN_PAUSED": "실행이 일시 중지되었습니다. {detail}",
    "REQUEST_LIMIT": "이 실행에서 이 작업을 위해 {requests}번 요청했습니다. 마지막 결과: {detail}",
    "WORKER_LOST": "작업을 처리하던 워커가 {times}번 연속으로 사라졌습니다.",
    "CANCELLED": "취소되었습니다.",
    "SELLER_DEACTIVATED": "판매자가 비활성화되어 취소되었습니다.",
    "RUN_ENDED": "실행이 이미 끝났습니다.",
    "DEADLINE_PASSED": "실행이 제한 시간을 넘겼습니다.",
    "OVERTAKEN": "다음 실행 시각까지 시작하지 못했습니다. {detail}",
    "INTERNAL": "내부 오류입니다({detail}).",
    "RECORDED": "{text}",
}

#: What a completed task left out (`TaskNote`).
NOTES_ENGLISH: Mapping[str, str] = {
    "STILL_ANSWERS": "The product is not on the list, but its page still answers.",
    "HELD": "Held in quarantine, or until more of the run has been judged.",
    "FOREIGN": "The item belongs to another seller; it is left alone.",
}

NOTES_KOREAN: Mapping[str, str] = {
    "STILL_ANSWERS": "목록에는 없지만 상품 페이지는 아직 응답합니다.",
    "HELD": "격리되었거나, 실행이 더 진행되어 판단할 수 있을 때까지 보류되었습니다.",
    "FOREIGN": "다른 판매자의 상품이라 건드리지 않습니다.",
}


def failure_text(failure: Failure, language: str = "en") -> str:
    """The sentence for a failure in a language."""
    templates = FAILURES_KOREAN if language == "ko" else FAILURES_ENGLISH
    facts = defaultdict(lambda: "?", failure.facts_by_name)
    return templates[failure.code].format_map(facts).rstrip()


def note_text(note: str, language: str = "en") -> str:
    """The sentence for a note; one recorded before notes had codes is a sentence itself."""
    return (NOTES_KOREAN if language == "ko" else NOTES_ENGLISH).get(note, note)


def catalogue(language: str) -> Mapping[str, str]:
    """The sentences of a language; English for one that is not there."""
    return CATALOGUES.get(language, ENGLISH)


def word(code: str, facts: Mapping[str, object], catalogue: Mapping[str, str] = ENGLISH) -> str:
    """The sentence for a code and its facts."""
    template = catalogue.get(code)
    if template is None:
        shown = ", ".join(f"{name}={value}" for name, value in facts.items())
        return f"{code.capitalize().replace('_', ' ')}{f' ({shown})' if shown else ''}."
    either, none = (" 또는 ", "없음") if catalogue is KOREAN else (" or ", "nothing")
    return template.format_map({name: _shown(name, value, either, none) for name, value in facts.items()})


def _shown(name: str, value: object, either: str, none: str) -> object:
    """Lists as people say them (`a, b or c`), verbs without the underscore of their method."""
    if name == "verb":
        return str(value).replace("_", " ")
    if isinstance(value, tuple | list):
        texts = [str(v) for v in value]
        return either.join(filter(None, [", ".join(texts[:-1]), *texts[-1:]])) or none
    return value
