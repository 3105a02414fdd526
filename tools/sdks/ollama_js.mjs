// Every method of Ollama's JavaScript SDK against a running server.
// usage: node ollama_js.mjs BASE_URL; prints one line per check, ends with status 1 when one failed.
import assert from "node:assert/strict";
import { Ollama } from "ollama";
import { run } from "./checks.mjs";

const client = new Ollama({ host: process.argv[2] });
const asked = (content, more = {}) => ({ model: "fake", messages: [{ role: "user", content }], ...more });
const look = {
  type: "function",
  function: { name: "look", description: "Look.", parameters: { type: "object", properties: { place: { type: "string" } } } },
};
const text = "one two three four five";
const all = async (stream) => {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
};
const refused = (status) => (error) => error.name === "ResponseError" && error.status_code === status;

const checks = {
  async "chat, whole"() {
    const answer = await client.chat(asked("WORDS"));
    assert.equal(answer.message.content, text);
    assert.deepEqual([answer.done, answer.done_reason, answer.eval_count], [true, "stop", 6]);
  },
  async "chat, streamed"() {
    const parts = await all(await client.chat(asked("WORDS", { stream: true })));
    assert.equal(parts.map((part) => part.message.content).join(""), text);
    assert.equal(parts.at(-1).done, true);
  },
  async "thinking"() {
    const { message } = await client.chat(asked("THINK", { think: true }));
    assert.deepEqual([message.thinking, message.content], ["so so", "Hi there"]);
  },
  async "tools"() {
    const { message } = await client.chat(asked("WEATHER", { tools: [look] }));
    assert.deepEqual(message.tool_calls[0].function.arguments, { place: "Oslo" });
    const result = { role: "tool", tool_name: "look", content: "Rain." };
    const messages = [{ role: "user", content: "WEATHER" }, message, result];
    assert.ok((await client.chat({ model: "fake", messages, tools: [look] })).done);
  },
  async "generate"() {
    const first = await client.generate({ model: "fake", prompt: "EMOJI" });
    assert.equal(first.response, "ok😀é한!");
    const second = await client.generate({ model: "fake", prompt: "WORDS", context: first.context });
    assert.equal(second.response, text);
    const parts = await all(await client.generate({ model: "fake", prompt: "EMOJI", stream: true }));
    assert.equal(parts.map((part) => part.response).join(""), "ok😀é한!");
    assert.deepEqual(parts.at(-1).context, first.context);
  },
  async "models"() {
    assert.equal((await client.list()).models[0].model, "fake:latest");
    assert.equal((await client.ps()).models[0].model, "fake:latest");
    assert.ok((await client.show({ model: "fake" })).capabilities.includes("completion"));
    assert.ok((await client.version()).version);
  },
  async "pull, create, copy, delete"() {
    assert.equal((await client.pull({ model: "fake" })).status, "success");
    assert.equal((await all(await client.pull({ model: "fake", stream: true }))).at(-1).status, "success");
    assert.equal((await client.create({ model: "js", from: "fake", system: "Say WORDS." })).status, "success");
    assert.equal((await client.chat({ ...asked("x"), model: "js" })).message.content, text);
    assert.equal((await client.copy({ source: "js", destination: "js-2" })).status, "success");
    for (const model of ["js", "js-2"]) assert.equal((await client.delete({ model })).status, "success");
    await assert.rejects(() => client.delete({ model: "js" }), refused(404));
    const steps = await all(await client.create({ model: "js", from: "fake", stream: true }));
    assert.equal(steps.at(-1).status, "success");
    await client.delete({ model: "js" });
  },
  async "errors"() {
    await assert.rejects(() => client.show({ model: "nobody" }), refused(404));
    await assert.rejects(() => client.push({ model: "fake" }), refused(501));
    await assert.rejects(() => client.chat(asked("WORDS", { options: { temperature: -1 } })), refused(400));
    await assert.rejects(() => client.embed({ model: "fake", input: "x" }), (error) => error.name === "ResponseError");
    await assert.rejects(async () => all(await client.chat(asked("ROWFAIL", { stream: true }))));
  },
  async "a stream can be left"() {
    const stream = await client.chat(asked("FOREVER", { stream: true }));
    await assert.rejects(async () => {
      for await (const part of stream) if (part.message.content) stream.abort();
    }, { name: "AbortError" });
    assert.equal((await client.chat(asked("WORDS"))).message.content, text);
  },
};
await run(checks);
