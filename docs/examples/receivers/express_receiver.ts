// A product server with Express, on Node.js 18 or newer:
//   npm install express@5 typescript@5 @types/express@5 @types/node@18
//   npx tsc --strict --skipLibCheck --module nodenext --target es2022 --types node express_receiver.ts
//   SECRET=... node express_receiver.js
// Settings are environment variables: SECRET (as in SELLERWATCH_PRODUCT_SERVER_SECRET), PORT (9100), JOURNAL (a file).
// It keeps products in memory, and every event in a journal that it reads when it starts. Use your database instead.

import { createHmac, timingSafeEqual } from "node:crypto";
import { existsSync, fsyncSync, openSync, readFileSync, truncateSync, writeSync } from "node:fs";
import express = require("express");

interface ProductEvent {
  eventId: string;
  eventType: string;
  itemNo: number;
  version: number;
  deleted?: boolean;
  productData: unknown;
}

const secret = process.env.SECRET ?? "";
if (!secret) throw new Error("SECRET is not set");
const journal = process.env.JOURNAL ?? "products.jsonl";
const signingKey = secret.startsWith("whsec_") ? Buffer.from(secret.slice(6), "base64") : Buffer.from(secret);
const keys = new Set<string>();
const products = new Map<number, { version: number; deleted: boolean; data: unknown }>();

/** Return whether the request is signed with our secret, and not an old one sent again. */
function isGenuine(header: (name: string) => string | undefined, body: Buffer): boolean {
  const id = header("webhook-id") ?? "";
  const timestamp = header("webhook-timestamp") ?? "";
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) return false;
  const mac = createHmac("sha256", signingKey).update(`${id}.${timestamp}.`).update(body).digest("base64");
  const expected = Buffer.from(`v1,${mac}`);
  const sent = (header("webhook-signature") ?? "").split(" ").map((one) => Buffer.from(one));
  return sent.some((one) => one.length === expected.length && timingSafeEqual(one, expected));
}

/** Keep the product, unless a newer version of it is there. */
function apply(event: ProductEvent): void {
  keys.add(event.eventId);
  if (event.version <= (products.get(event.itemNo)?.version ?? 0)) return;
  const deleted = event.eventType === "PRODUCT_DELETED" || event.deleted === true;
  products.set(event.itemNo, { version: event.version, deleted, data: event.productData });
}

if (existsSync(journal)) {
  const lines = readFileSync(journal);
  const whole = lines.lastIndexOf(10) + 1; // a line that was cut off was never acknowledged
  truncateSync(journal, whole);
  for (const line of lines.subarray(0, whole).toString().split("\n")) if (line) apply(JSON.parse(line));
}

const file = openSync(journal, "a");
const app = express();

app.post("/events", express.raw({ type: () => true, limit: "16mb" }), (request, response) => {
  if (!isGenuine((name) => request.get(name), request.body)) {
    response.status(401).json({ error: "the signature is wrong" });
    return;
  }
  const event: ProductEvent = JSON.parse(request.body.toString());
  const key = request.get("idempotency-key") ?? "";
  if (event.eventType !== "PING" && !keys.has(key)) {
    writeSync(file, JSON.stringify(event) + "\n");
    fsyncSync(file); // stored before it is answered
    apply(event);
  }
  response.json({ received: event.eventId }); // slow work comes after this answer
});

// Shows what is stored. Remove this from a server that others can reach.
app.get("/products", (_, response) => {
  const held = [...products].filter(([, product]) => !product.deleted);
  response.json(Object.fromEntries(held.map(([itemNo, product]) => [itemNo, product.data])));
});

app.listen(Number(process.env.PORT ?? 9100), "127.0.0.1");
