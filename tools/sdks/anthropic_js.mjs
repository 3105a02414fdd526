// Anthropic's JavaScript SDK: messages, streams, tools, the tool runner, schemas, counts, batches and models, against a
// running server.
// usage: node anthropic_js.mjs BASE_URL; prints one line per check, ends with status 1 when one failed.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { run } from "./checks.mjs";

const client = new Anthropic({ baseURL: process.argv[2], apiKey: "unused", maxRetries: 0 });
const asked = (content, more = {}) => ({ model: "x", max_tokens: 64, messages: [{ role: "user", content }], ...more });
const look = { name: "look", input_schema: { type: "object", properties: { place: { type: "string" } } } };
const text = "one two three four five";
const ended = async (batch) => {
  for (let tries = 0; tries < 500; tries += 1) {
    if (batch.processing_status === "ended") return batch;
    await new Promise((resolve) => setTimeout(resolve, 20));
    batch = await client.messages.batches.retrieve(batch.id);
  }
  throw new Error("it did not end");
};
const refused = async (kind, call) => {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof kind, String(error));
    assert.equal(error.error.type, "error");
    return true;
  });
};

const checks = {
  async "message, whole"() {
    const message = await client.messages.create(asked("WORDS", { system: "Be brief." }));
    assert.deepEqual(message.content.map((block) => [block.type, block.text]), [["text", text]]);
    assert.deepEqual([message.stop_reason, message.stop_sequence], ["end_turn", null]);
    assert.ok(message.usage.output_tokens > 0);
    assert.ok(message._request_id);
  },
  async "message, raw events"() {
    const types = [];
    let said = "";
    for await (const event of await client.messages.create(asked("WORDS", { stream: true }))) {
      types.push(event.type);
      said += event.delta?.text ?? "";
    }
    assert.equal(said, text);
    assert.deepEqual([types[0], types.at(-1)], ["message_start", "message_stop"]);
  },
  async "stream helper"() {
    const stream = client.messages.stream(asked("WORDS"));
    let said = "";
    stream.on("text", (delta) => (said += delta));
    assert.equal(await stream.finalText(), text);
    assert.equal(said, text);
    assert.equal((await stream.finalMessage()).stop_reason, "end_turn");
  },
  async "thoughts are replayed"() {
    const thinking = { type: "adaptive", display: "omitted" };
    const first = await client.messages.stream(asked("THINK", { thinking })).finalMessage();
    assert.deepEqual(first.content.map((block) => block.type), ["thinking", "text"]);
    assert.equal(first.content[0].thinking, "");
    const talk = [...asked("THINK").messages, { role: "assistant", content: first.content }, ...asked("THINK").messages];
    const second = await client.messages.create(asked("", { thinking, messages: talk }));
    assert.equal(second.content.at(-1).text, "Hi there");
  },
  async "tool use"() {
    const message = await client.messages.create(asked("WEATHER in Oslo?", { tools: [look] }));
    assert.equal(message.stop_reason, "tool_use");
    assert.deepEqual(message.content.at(-1).input, { place: "Oslo" });
    const streamed = await client.messages.stream(asked("WEATHER in Oslo?", { tools: [look] })).finalMessage();
    assert.deepEqual(streamed.content.at(-1).input, { place: "Oslo" });
  },
  async "tool runner"() {
    const seen = [];
    const run = async ({ place }) => (seen.push(place), `rain in ${place}`);
    const runner = client.beta.messages.toolRunner({
      ...asked("WEATHER in Oslo?", { tools: [{ ...look, run, parse: (input) => input }] }),
      max_iterations: 1,
    });
    for await (const message of runner) assert.equal(message.stop_reason, "tool_use");
    assert.deepEqual(seen, ["Oslo"]);
  },
  async "stop sequences"() {
    const message = await client.messages.create(asked("WORDS", { stop_sequences: ["zzz", "o thr"] }));
    assert.deepEqual([message.content[0].text, message.stop_reason, message.stop_sequence], ["one tw", "stop_sequence", "o thr"]);
    assert.equal((await client.messages.create(asked("WORDS", { max_tokens: 2 }))).stop_reason, "max_tokens");
  },
  async "counts"() {
    const body = { model: "x", messages: asked("WORDS").messages, tools: [look] };
    const counted = await client.messages.countTokens(body);
    const { usage } = await client.messages.create({ ...body, max_tokens: 8 });
    assert.equal(usage.input_tokens + usage.cache_read_input_tokens, counted.input_tokens);
  },
  async "context management"() {
    const context_management = { edits: [{ type: "clear_tool_uses_20250919" }] };
    const body = asked("WORDS", { context_management, betas: ["context-management-2025-06-27"] });
    const message = await client.beta.messages.create(body);
    assert.deepEqual(message.context_management, { applied_edits: [] });
    const final = await client.beta.messages.stream(body).finalMessage();
    assert.deepEqual(final.context_management, { applied_edits: [] });
  },
  async "batches"() {
    const params = { model: "x", max_tokens: 64, messages: asked("WORDS").messages };
    const requests = [{ custom_id: "a", params }, { custom_id: "b", params: { ...params, max_tokens: 0 } }];
    const done = await ended(await client.messages.batches.create({ requests }));
    assert.deepEqual([done.request_counts.succeeded, done.request_counts.errored], [1, 1]);
    const found = {};
    for await (const line of await client.messages.batches.results(done.id)) found[line.custom_id] = line.result;
    assert.equal(found.a.message.content[0].text, text);
    assert.equal(found.b.error.error.type, "invalid_request_error");
    const ids = [];
    for await (const batch of client.messages.batches.list({ limit: 1 })) ids.push(batch.id);
    assert.ok(ids.includes(done.id));
    assert.equal((await client.messages.batches.delete(done.id)).type, "message_batch_deleted");
  },
  async "models"() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.ok(ids.includes("fake"));
    assert.equal((await client.models.retrieve("fake")).type, "model");
    await refused(Anthropic.NotFoundError, () => client.models.retrieve("nobody"));
  },
  async "errors"() {
    await refused(Anthropic.BadRequestError, () => client.messages.create(asked("x", { max_tokens: 0 })));
    await refused(Anthropic.InternalServerError, () => client.messages.create(asked("ROWFAIL")));
    await assert.rejects(async () => {
      for await (const _ of await client.messages.create(asked("ROWFAIL", { stream: true })));
    }, Anthropic.APIError);
  },
};

await run(checks);
