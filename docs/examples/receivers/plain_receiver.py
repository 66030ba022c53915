"""A product server in plain Python: python3 plain_receiver.py. It needs Python 3.11 or newer and nothing else.

Settings are environment variables: SECRET (as in SELLERWATCH_PRODUCT_SERVER_SECRET), PORT (9100), DATABASE (a file).
"""

import base64
import hmac
import json
import os
import sqlite3
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

SECRET = os.environ["SECRET"]
database = sqlite3.connect(os.environ.get("DATABASE", "products.db"), check_same_thread=False, isolation_level=None)
database.executescript("""
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS products (item_no INTEGER PRIMARY KEY, version INTEGER, deleted INTEGER, data TEXT)""")
one_at_a_time = Lock()


def is_genuine(headers, body):
    """Return whether the request is signed with our secret, and not an old one sent again."""
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or len(timestamp) > 12 or abs(time.time() - int(timestamp)) > 300:
        return False
    key = base64.b64decode(SECRET.removeprefix("whsec_")) if SECRET.startswith("whsec_") else SECRET.encode()
    signed = f"{message_id}.{timestamp}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    sent = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(one.encode(), expected.encode()) for one in sent)


def apply(key, event):
    """Store the event in one transaction: its key, and the product unless a newer version of it is stored."""
    with one_at_a_time, database:
        database.execute("BEGIN IMMEDIATE")
        if not database.execute("INSERT OR IGNORE INTO keys VALUES (?)", (key,)).rowcount:
            return  # sent again, because our answer was lost
        deleted = event["eventType"] == "PRODUCT_DELETED" or event.get("deleted", False)
        database.execute(
            "INSERT INTO products VALUES (?, ?, ?, ?) ON CONFLICT (item_no) DO UPDATE SET version = excluded.version,"
            " deleted = excluded.deleted, data = excluded.data WHERE excluded.version > products.version",
            (event["itemNo"], event["version"], deleted, json.dumps(event["productData"])),
        )


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not is_genuine(self.headers, body):
            return self.answer(401, {"error": "the signature is wrong"})
        event = json.loads(body)
        if event["eventType"] != "PING":
            apply(self.headers["Idempotency-Key"], event)
        return self.answer(200, {"received": event["eventId"]})  # stored: slow work comes after this answer

    def do_GET(self):
        """Show what is stored. Remove this from a server that others can reach."""
        with one_at_a_time:
            rows = database.execute("SELECT item_no, data FROM products WHERE NOT deleted").fetchall()
        self.answer(200, {str(item_no): json.loads(data) for item_no, data in rows})

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9100"))), Receiver).serve_forever()
