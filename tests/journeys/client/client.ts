// Uses a client that is generated from /openapi.json: `api.d.ts` is made by openapi-typescript. Run by test_client.py.

import createClient from "openapi-fetch";
import type { components, operations, paths } from "./api.js";

type Product = components["schemas"]["ProductData"];
type Event = components["schemas"]["ProductUpdated"];
type Started = operations["runScheduleNow"]["responses"][200]["content"]["application/json"];

const { ADDRESS, TOKEN, ITEM } = process.env;
const client = createClient<paths>({ baseUrl: ADDRESS, headers: { authorization: `Bearer ${TOKEN}` } });
const sellerId = "seller_0001";

async function main(): Promise<void> {
  const interval = { amount: 6, unit: "HOURS" as const };
  const registered = await client.POST("/api/v1/sellers", { body: { sellerId, name: "판매자", interval } });
  const refused = await client.POST("/api/v1/sellers", { body: { sellerId, name: "판매자", interval } });
  const ran = await client.POST("/api/v1/schedules/{sellerId}/run-now", { params: { path: { sellerId } } });
  const started: Started | undefined = ran.data;
  const listed = await client.GET("/api/v1/sellers", { params: { query: { size: 5 } } });
  const path = { itemNo: Number(ITEM) };
  const shown = await client.GET("/api/v1/products/{itemNo}", { params: { path } });
  const product: Product | null | undefined = shown.data?.productData;
  // @ts-expect-error: a price is a number, so the compiler refuses this line.
  const wrong: string | undefined = product?.prices.selling;
  const event: Pick<Event, "eventType" | "version"> = { eventType: "PRODUCT_UPDATED", version: 2 };
  console.log(
    JSON.stringify({
      registered: registered.data?.sellerId,
      refused: refused.error?.errorCode,
      started: started?.sellerId,
      listed: listed.data?.content.map((seller) => seller.sellerId),
      missing: shown.error?.errorCode,
      brand: product?.brand.name ?? "none",
      selling: wrong ?? "none",
      event: event.eventType,
    }),
  );
}

void main();
