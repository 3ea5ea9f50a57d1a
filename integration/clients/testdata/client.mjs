// Finishes calls with the client of the official TypeScript SDK. Reads jobs from standard
// input and writes outcomes to standard output, a line of JSON each.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(process.env.ECHOSEAL_PEERS + "/node/");
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");

async function finish({ url, version, method, target, questions, waits }) {
  const outcome = { version: "", text: "", asked: 0, error: "" };
  const options = { capabilities: { elicitation: { form: {} } } };
  if (version >= "2026") {
    options.versionNegotiation = { mode: { pin: version } };
  } else {
    options.supportedProtocolVersions = [version];
  }
  const client = new Client({ name: "client", version: "1" }, options);
  client.setRequestHandler("elicitation/create", async () => {
    outcome.asked++;
    return { action: "accept", content: { answer: `answer ${outcome.asked}` } };
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  outcome.version = client.getNegotiatedProtocolVersion();
  const text = (parts) => parts.map((part) => part.text).join("");
  try {
    if (method === "tools/call") {
      outcome.text = text((await client.callTool({ name: target, arguments: { questions, waits } })).content);
    } else if (method === "prompts/get") {
      const result = await client.getPrompt({ name: target, arguments: { questions: `${questions}`, waits: `${waits}` } });
      outcome.text = text(result.messages.map((message) => message.content));
    } else {
      outcome.text = text((await client.readResource({ uri: target })).contents);
    }
  } catch (e) {
    outcome.error = JSON.stringify({ code: e.code, message: e.message, data: e.data });
  }
  await client.close();
  return outcome;
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await finish(JSON.parse(line))));
}
