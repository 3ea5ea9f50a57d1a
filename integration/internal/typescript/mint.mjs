// Mints tokens with the codec of the official TypeScript SDK, and has it verify tokens
// that are none of its own. Reads {key, others} from standard input and writes
// {tokens, reasons} to standard output, as JSON.
import { createRequire } from "node:module";
import { json } from "node:stream/consumers";

const require = createRequire(process.env.ECHOSEAL_PEERS + "/node/");
const { createRequestStateCodec } = require("@modelcontextprotocol/server");

const { key, others } = await json(process.stdin);
const open = createRequestStateCodec({ key });
const brief = createRequestStateCodec({ key, ttlSeconds: 1 });
const bound = createRequestStateCodec({ key, bind: (ctx) => `${ctx.mcpReq.method}\0${ctx.http.authInfo.clientId}` });
const ctx = { mcpReq: { method: "tools/call" }, http: { authInfo: { clientId: "app" } } };

const tokens = [];
async function mint(name, codec, payload, ...context) {
  const token = await codec.mint(payload, ...context);
  if (JSON.stringify(await codec.verify(token, ...context)) !== JSON.stringify(payload)) {
    throw new Error(`${name} does not verify`);
  }
  tokens.push({ name, token, payload, bound: context.length > 0 });
}
await mint("text", open, "amount=4200");
await mint("object", open, { step: 2, name: "Zürich \u{1f511}", lone: "\ud800" });
await mint("number", open, 7);
await mint("null", open, null);
await mint("empty", open, "");
await mint("long", open, "x".repeat(4096));
await mint("bound", bound, { step: 2 }, ctx);
const now = Date.now;
Date.now = () => now() - 3_600_000;
await mint("expired", brief, "amount=4200");
Date.now = now;

const reasons = [];
for (const token of others) {
  reasons.push(await open.verify(token).then(() => "", (e) => e.message));
}
console.log(JSON.stringify({ tokens, reasons }));
