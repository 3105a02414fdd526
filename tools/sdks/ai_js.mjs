// The AI SDK with its providers for three wires: text, streams, tools and objects, against a running server.
// usage: node ai_js.mjs BASE_URL; prints one line per check, ends with status 1 when one failed.
import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { run } from "./checks.mjs";

const baseURL = `${process.argv[2]}/v1`;
const openai = createOpenAI({ baseURL, apiKey: "unused" });
const models = {
  responses: openai.responses("fake"),
  chat: openai.chat("fake"),
  compatible: createOpenAICompatible({ name: "local", baseURL, includeUsage: true })("fake"),
  messages: createAnthropic({ baseURL, apiKey: "unused" })("fake"),
};
const text = "one two three four five";
const place = jsonSchema({
  type: "object", properties: { place: { type: "string" } }, required: ["place"], additionalProperties: false,
});

const checks = {
  async text(model) {
    const answer = await generateText({ model, prompt: "WORDS", maxRetries: 0 });
    assert.deepEqual([answer.text, answer.finishReason], [text, "stop"]);
    assert.ok(answer.usage.inputTokens > 0 && answer.usage.outputTokens > 0);
  },
  async stream(model) {
    const answer = streamText({ model, prompt: "WORDS", maxRetries: 0 });
    let said = "";
    for await (const piece of answer.textStream) said += piece;
    assert.deepEqual([said, await answer.finishReason], [text, "stop"]);
    assert.ok((await answer.usage).outputTokens > 0);
  },
  async tools(model) {
    const seen = [];
    const look = tool({ description: "Look.", inputSchema: place, execute: async (input) => seen.push(input) && "Rain." });
    await generateText({ model, prompt: "WEATHER", tools: { look }, stopWhen: stepCountIs(2), maxRetries: 0 });
    const answer = streamText({ model, prompt: "WEATHER", tools: { look }, stopWhen: stepCountIs(2), maxRetries: 0 });
    await answer.consumeStream();
    assert.ok(seen.length >= 2);
    for (const input of seen) assert.deepEqual(input, { place: "Oslo" });
  },
  async object(model, wire) {
    // Through Messages the object is a forced call, in which the scripted engine keeps the form and not the words.
    const same = wire === "messages" ? (found) => assert.equal(typeof found.place, "string") : (found) =>
      assert.deepEqual(found, { place: "Oslo" });
    const output = Output.object({ schema: place, name: "place" });
    const answer = await generateText({ model, prompt: "OBJECT", output, maxRetries: 0 });
    same(answer.output);
    const stream = streamText({ model, prompt: "OBJECT", output, maxRetries: 0 });
    let last;
    for await (const partial of stream.partialOutputStream) last = partial;
    same(last);
  },
  async failure(model) {
    await assert.rejects(() => generateText({ model, prompt: "ROWFAIL", maxRetries: 0 }));
    await assert.rejects(() => generateText({ model, prompt: "word ".repeat(3000), maxRetries: 0 }), { statusCode: 400 });
  },
};
const named = Object.entries(models).flatMap(([wire, model]) =>
  Object.entries(checks).map(([name, check]) => [`${wire} ${name}`, () => check(model, wire)]),
);
await run(Object.fromEntries(named));
