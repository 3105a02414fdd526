// Every method and helper of OpenAI's JavaScript SDK for chat, completions and models, against a running server.
// usage: node openai_js.mjs BASE_URL; prints one line per check, ends with status 1 when one failed.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "unused", maxRetries: 0 });
const asked = (content, more = {}) => ({ model: "x", messages: [{ role: "user", content }], ...more });
const look = {
  type: "function",
  function: { name: "look", parameters: { type: "object", properties: { place: { type: "string" } } } },
};
const text = "one two three four five";

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
  async "a stream can be left"() {
    const stream = await client.chat.completions.create(asked("FOREVER", { stream: true }));
    for await (const chunk of stream) if (chunk.choices[0].delta.content) break;
    assert.ok(stream.controller.signal.aborted);
  },
};
let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}: ${error?.stack ?? error}`);
  }
}
process.exit(failed ? 1 : 0);
