// Every method and helper of OpenAI's JavaScript SDK for chat, completions, responses, files, batches, embeddings and
// models, against a running server.
// usage: node openai_js.mjs BASE_URL; prints one line per check, ends with status 1 when one failed.
import assert from "node:assert/strict";
import OpenAI, { toFile } from "openai";
import { run } from "./checks.mjs";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "unused", maxRetries: 0 });
const asked = (content, more = {}) => ({ model: "x", messages: [{ role: "user", content }], ...more });
const look = {
  type: "function",
  function: { name: "look", parameters: { type: "object", properties: { place: { type: "string" } } } },
};
const text = "one two three four five";
const ended = async (poll, over) => {
  for (let tries = 0; tries < 500; tries += 1) {
    const found = await poll();
    if (over.includes(found.status)) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error("it did not end");
};
const batchOf = async (endpoint, bodies) => {
  const rows = bodies.map((body, n) => JSON.stringify({ custom_id: `r${n}`, method: "POST", url: endpoint, body }));
  const file = await client.files.create({ file: await toFile(Buffer.from(rows.join("\n")), "rows.jsonl"), purpose: "batch" });
  return client.batches.create({ input_file_id: file.id, endpoint, completion_window: "24h" });
};
const lines = async (id) => (await (await client.files.content(id)).text()).trim().split("\n").map((line) => JSON.parse(line));

const checks = {
  async "chat, whole"() {
    const answer = await client.chat.completions.create(asked("WORDS"));
    assert.equal(answer.choices[0].message.content, text);
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.ok(answer.usage.total_tokens > 0);
  },
  async "chat, streamed"() {
    let said = "";
    const last = [];
    const stream_options = { include_usage: true };
    for await (const chunk of await client.chat.completions.create(asked("WORDS", { stream: true, stream_options }))) {
      said += chunk.choices[0]?.delta?.content ?? "";
      last.push(chunk);
    }
    assert.equal(said, text);
    assert.deepEqual(last.at(-1).choices, []);
    assert.ok(last.at(-1).usage.completion_tokens > 0);
  },
  async "stream helper"() {
    const stream = client.chat.completions.stream(asked("WORDS"));
    let said = "";
    stream.on("content", (delta) => (said += delta));
    assert.equal(await stream.finalContent(), text);
    assert.equal(said, text);
    assert.equal((await stream.finalChatCompletion()).choices[0].finish_reason, "stop");
    assert.equal((await stream.finalMessage()).role, "assistant");
    assert.equal((await stream.allChatCompletions()).length, 1);
  },
  async "several choices through the helper"() {
    const final = await client.chat.completions.stream(asked("WORDS", { n: 2 })).finalChatCompletion();
    assert.deepEqual(final.choices.map((choice) => choice.message.content), [text, text]);
  },
  async "tools through the helper"() {
    const final = await client.chat.completions.stream(asked("WEATHER", { tools: [look] })).finalChatCompletion();
    const [call] = final.choices[0].message.tool_calls;
    assert.deepEqual(JSON.parse(call.function.arguments), { place: "Oslo" });
  },
  async "parse"() {
    const parameters = { ...look.function.parameters, required: ["place"], additionalProperties: false };
    const tool = { ...look, function: { ...look.function, parameters, strict: true } };
    const answer = await client.chat.completions.parse(asked("WEATHER", { tools: [tool] }));
    assert.deepEqual(answer.choices[0].message.tool_calls[0].function.parsed_arguments, { place: "Oslo" });
  },
  async "tool runner"() {
    const seen = [];
    const tool = { ...look, function: { ...look.function, parse: JSON.parse, function: (args) => seen.push(args) && "Rain." } };
    for (const stream of [false, true]) {
      const runner = client.chat.completions.runTools(asked("WEATHER", { tools: [tool], stream }), {
        maxChatCompletions: 2,
      });
      await runner.done().catch(() => undefined);
    }
    assert.ok(seen.length >= 2);
    assert.deepEqual(seen[0], { place: "Oslo" });
  },
  async "stored completions"() {
    assert.deepEqual((await client.chat.completions.list()).data, []);
    const calls = [
      () => client.chat.completions.retrieve("x"),
      () => client.chat.completions.update("x", { metadata: {} }),
      () => client.chat.completions.delete("x"),
      () => client.chat.completions.messages.list("x"),
    ];
    for (const call of calls) await assert.rejects(call, OpenAI.NotFoundError);
  },
  async "completions"() {
    const answer = await client.completions.create({ model: "x", prompt: ["WORDS", "EMOJI"] });
    assert.deepEqual(answer.choices.map((choice) => choice.text), [text, "ok😀é한!"]);
    let said = "";
    for await (const chunk of await client.completions.create({ model: "x", prompt: "WORDS", stream: true }))
      said += chunk.choices[0].text;
    assert.equal(said, text);
  },
  async "models"() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.equal((await client.models.retrieve(ids[0])).id, ids[0]);
    await assert.rejects(() => client.models.retrieve("nobody/nothing"), OpenAI.NotFoundError);
    await assert.rejects(() => client.models.delete(ids[0]), OpenAI.APIError);
  },
  async "errors"() {
    await assert.rejects(
      () => client.chat.completions.create(asked("WORDS", { temperature: 9 })),
      (error) =>
        error instanceof OpenAI.BadRequestError &&
        error.param === "temperature" &&
        error.code === "invalid_value" &&
        error.type === "invalid_request_error" &&
        Boolean(error.requestID),
    );
  },
  async "raw replies"() {
    assert.ok((await client.chat.completions.create(asked("WORDS")).withResponse()).request_id);
    assert.equal((await client.chat.completions.create(asked("WORDS")).asResponse()).status, 200);
  },
  async "responses, whole and kept"() {
    const answer = await client.responses.create({ model: "x", input: "WORDS", metadata: { a: "b" } });
    assert.equal(answer.output_text, text);
    assert.deepEqual((await client.responses.retrieve(answer.id)).output, answer.output);
    const counted = await client.responses.inputTokens.count({ model: "x", input: "WORDS" });
    assert.equal(counted.input_tokens, answer.usage.input_tokens);
    const next = await client.responses.create({ model: "x", input: "THINK", previous_response_id: answer.id });
    assert.equal(next.output_text, "Hi there");
    const items = [];
    for await (const item of client.responses.inputItems.list(next.id, { order: "asc", limit: 2 })) items.push(item.role);
    assert.deepEqual(items, ["user", "assistant", "user"]);
    await client.responses.delete(answer.id);
    await assert.rejects(() => client.responses.retrieve(answer.id), OpenAI.NotFoundError);
  },
  async "responses, streamed"() {
    const kinds = [];
    let number = 0;
    for await (const event of await client.responses.create({ model: "x", input: "WEATHER", tools: [{ ...look.function, type: "function", strict: false }], stream: true })) {
      assert.equal(event.sequence_number, number);
      number += 1;
      kinds.push(event.type);
    }
    assert.equal(kinds.at(-1), "response.completed");
    assert.ok(kinds.includes("response.function_call_arguments.done"));
  },
  async "responses through the helper"() {
    let said = "";
    const stream = client.responses.stream({ model: "x", input: "WORDS" });
    stream.on("response.output_text.delta", (event) => (said += event.delta));
    const final = await stream.finalResponse();
    assert.equal(said, text);
    assert.equal(final.output_text, text);
    const again = client.responses.stream({ response_id: final.id, starting_after: 2 });
    assert.equal((await again.finalResponse()).output_text, text);
  },
  async "responses, parsed"() {
    const tool = { type: "function", name: "look", strict: true, parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"], additionalProperties: false } };
    const answer = await client.responses.parse({ model: "x", input: "WEATHER", tools: [tool] });
    const call = answer.output.find((item) => item.type === "function_call");
    assert.deepEqual(call.parsed_arguments, { place: "Oslo" });
  },
  async "responses in the background"() {
    const begun = await client.responses.create({ model: "x", input: "WORDS", background: true });
    const done = await ended(() => client.responses.retrieve(begun.id), ["completed"]);
    assert.equal(done.output_text, text);
    const other = await client.responses.create({ model: "x", input: "FOREVER", background: true });
    assert.equal((await client.responses.cancel(other.id)).status, "cancelled");
    await assert.rejects(() => client.responses.compact({ model: "x", input: "x" }), OpenAI.APIError);
  },
  async "several words in one include"() {
    const include = ["reasoning.encrypted_content", "message.output_text.logprobs"];
    const answer = await client.responses.create({ model: "x", input: "THINK", include });
    const [thought] = (await client.responses.retrieve(answer.id, { include })).output;
    assert.ok(thought.encrypted_content);
  },
  async "files"() {
    const made = await client.files.create({ file: await toFile(Buffer.from("some notes"), "notes.txt"), purpose: "user_data" });
    assert.equal((await client.files.retrieve(made.id)).bytes, 10);
    assert.equal((await client.files.waitForProcessing(made.id)).status, "processed");
    const ids = [];
    for await (const file of client.files.list({ limit: 1 })) ids.push(file.id);
    assert.ok(ids.includes(made.id));
    assert.equal(await (await client.files.content(made.id)).text(), "some notes");
    assert.ok((await client.files.delete(made.id)).deleted);
    await assert.rejects(() => client.files.retrieve(made.id), OpenAI.NotFoundError);
  },
  async "batches"() {
    const made = await batchOf("/v1/chat/completions", [asked("WORDS"), asked("EMOJI"), asked("WORDS", { temperature: 9 })]);
    const done = await ended(() => client.batches.retrieve(made.id), ["completed", "failed"]);
    assert.deepEqual(done.request_counts, { total: 3, completed: 2, failed: 1 });
    const said = (await lines(done.output_file_id)).map((line) => line.response.body.choices[0].message.content);
    assert.deepEqual(said.sort(), ["ok😀é한!", text].sort());
    assert.equal((await lines(done.error_file_id))[0].response.status_code, 400);
    const ids = [];
    for await (const batch of client.batches.list({ limit: 1 })) ids.push(batch.id);
    assert.ok(ids.includes(made.id));
    const other = await batchOf("/v1/completions", [{ model: "x", prompt: "FOREVER" }]);
    assert.ok(["cancelling", "cancelled"].includes((await client.batches.cancel(other.id)).status));
    await ended(() => client.batches.retrieve(other.id), ["cancelled"]);
  },
  async "embeddings are refused by a text model"() {
    await assert.rejects(
      () => client.embeddings.create({ model: "x", input: "hi" }),
      (error) => error.status === 501 && error.type === "not_supported_error",
    );
  },
  async "a stream can be left"() {
    const stream = await client.chat.completions.create(asked("FOREVER", { stream: true }));
    for await (const chunk of stream) if (chunk.choices[0].delta.content) break;
    assert.ok(stream.controller.signal.aborted);
  },
};
await run(checks);
