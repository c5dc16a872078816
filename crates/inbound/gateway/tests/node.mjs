// The package openai of Node, pointed at a gateway by OPENAI_BASE_URL. Argument: the folder in which it is installed.
import { createRequire } from "node:module";

const OpenAI = createRequire(`${process.argv[2]}/package.json`)("openai");
const client = new OpenAI({ apiKey: "key-of-openai" });
const call = { model: "m", messages: [{ role: "user", content: "Hello" }], max_tokens: 6 };

const answer = await client.chat.completions.create(call);
console.log("openai", answer.choices[0].message.content, answer.usage.completion_tokens);

const stream = await client.chat.completions.create({ ...call, stream: true, stream_options: { include_usage: true } });
let words = "";
for await (const chunk of stream) words += chunk.choices[0]?.delta?.content ?? "";
console.log("openai stream", words);

const echo = await client.post("/echo%2Fpath", { query: { q: "1 2" }, body: { text: "x".repeat(5000) } });
console.log("post", echo.path, echo.received_bytes);

// There is room for this call only after a long time: the SDK is told at once, and does not retry.
try {
  await client.chat.completions.create({ ...call, max_tokens: 9_999_950 }, { maxRetries: 5 });
  console.log("no refusal");
} catch (error) {
  console.log("refused", error.status, error.headers.get("tollway-refused-by"), error.headers.get("x-should-retry"));
}
