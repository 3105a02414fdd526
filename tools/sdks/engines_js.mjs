// OpenAI's JavaScript SDK against a server whose model says what it likes: what is checked is that every method and
// helper reads its answer, and that whole and streamed agree.
// usage: node engines_js.mjs BASE_URL; prints one line per check, ends with status 1 when one failed.
import assert from "node:assert/strict";
import OpenAI, { toFile } from "openai";
import { run } from "./checks.mjs";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "unused", maxRetries: 0 });
// A prefix out of the cache may change the last bits of llama.cpp's figures, and with them a near tie.
const greedy = { temperature: 0, max_tokens: 12, cache_prompt: false };
const asked = (content, more = {}) => ({ model: "x", messages: [{ role: "user", content }], ...greedy, ...more });
const parameters = {
  type: "object",
  properties: { place: { type: "string", enum: ["Oslo", "Rome"] } },
  required: ["place"],
  additionalProperties: false,
};
const look = { type: "function", function: { name: "look", description: "Looks at a place.", strict: true, parameters } };
const response_format = { type: "json_schema", json_schema: { name: "where", strict: true, schema: parameters } };
const placed = (text) => assert.ok(["Oslo", "Rome"].includes(JSON.parse(text).place), text);
const spoken = { model: "x", input: "Name a colour.", temperature: 0, max_output_tokens: 12 };
const called = { type: "function", name: "look", strict: true, parameters };

const checks = {
  async "chat, whole and streamed"() {
    const whole = await client.chat.completions.create(asked("Name a colour."));
    let said = "";
    for await (const chunk of await client.chat.completions.create(asked("Name a colour.", { stream: true })))
      said += chunk.choices[0]?.delta?.content ?? "";
    assert.ok(said);
    assert.equal(whole.choices[0].message.content, said);
    assert.ok(whole.usage.prompt_tokens > 0 && whole.usage.completion_tokens > 0);
  },
  async "stream helper"() {
    const stream = client.chat.completions.stream(asked("Name a colour.", { n: 2 }));
    const final = await stream.finalChatCompletion();
    assert.equal(final.choices.length, 2);
    assert.ok(final.choices.every((choice) => choice.message.content && choice.finish_reason));
  },
  async "log probabilities"() {
    const answer = await client.chat.completions.create(asked("Name a colour.", { logprobs: true, top_logprobs: 2 }));
    const [first] = answer.choices[0].logprobs.content;
    assert.ok(first.logprob <= 0 && first.top_logprobs.length === 2);
  },
  async "a schema"() {
    placed((await client.chat.completions.parse(asked("Where?", { max_tokens: 60, response_format }))).choices[0].message.content);
    placed(await client.chat.completions.stream(asked("Where?", { max_tokens: 60, response_format })).finalContent());
  },
  async "a forced call"() {
    const more = { max_tokens: 80, tools: [look], tool_choice: { type: "function", function: { name: "look" } } };
    const parsed = await client.chat.completions.parse(asked("Look.", more));
    placed(JSON.stringify(parsed.choices[0].message.tool_calls[0].function.parsed_arguments));
    const final = await client.chat.completions.stream(asked("Look.", more)).finalChatCompletion();
    placed(final.choices[0].message.tool_calls[0].function.arguments);
  },
  async "tool runner"() {
    const seen = [];
    const tool = { ...look, function: { ...look.function, parse: JSON.parse, function: (args) => seen.push(args) && "Rain." } };
    const tool_choice = { type: "function", function: { name: "look" } };
    const runner = client.chat.completions.runTools(asked("Look.", { max_tokens: 80, tools: [tool], tool_choice }));
    await runner.done();
    assert.equal(seen.length, 1);
  },
  async "completions"() {
    const body = { model: "x", prompt: ["One two", "Red green"], ...greedy, logprobs: 1 };
    const whole = await client.completions.create(body);
    const said = ["", ""];
    for await (const chunk of await client.completions.create({ ...body, stream: true }))
      for (const choice of chunk.choices) said[choice.index] += choice.text;
    assert.deepEqual(whole.choices.map((choice) => choice.text), said);
    assert.equal(whole.choices[0].logprobs.tokens.join(""), said[0]);
  },
  async "responses"() {
    const answer = await client.responses.create(spoken);
    assert.ok(answer.output_text);
    assert.equal((await client.responses.retrieve(answer.id)).output_text, answer.output_text);
    const counted = await client.responses.inputTokens.count({ model: "x", input: spoken.input });
    assert.equal(counted.input_tokens, answer.usage.input_tokens);
    const next = await client.responses.create({ ...spoken, input: "Another.", previous_response_id: answer.id });
    assert.ok(next.usage.input_tokens > answer.usage.input_tokens);
    const final = await client.responses.stream(spoken).finalResponse();
    const again = await client.responses.stream({ response_id: final.id }).finalResponse();
    assert.equal(again.output_text, final.output_text);
    await client.responses.delete(answer.id);
  },
  async "responses, parsed"() {
    const text = { format: { type: "json_schema", name: "where", strict: true, schema: parameters } };
    placed(JSON.stringify((await client.responses.parse({ ...spoken, max_output_tokens: 60, text })).output_parsed));
    const more = { tools: [called], tool_choice: { type: "function", name: "look" }, max_output_tokens: 80 };
    const answer = await client.responses.parse({ ...spoken, ...more });
    placed(JSON.stringify(answer.output.find((item) => item.type === "function_call").parsed_arguments));
  },
  async "responses in the background"() {
    let begun = await client.responses.create({ ...spoken, background: true });
    for (let tries = 0; tries < 600 && ["queued", "in_progress"].includes(begun.status); tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      begun = await client.responses.retrieve(begun.id);
    }
    assert.ok(["completed", "incomplete"].includes(begun.status));
    const long = await client.responses.create({ ...spoken, max_output_tokens: 900, background: true });
    assert.equal((await client.responses.cancel(long.id)).status, "cancelled");
  },
  async "files and batches"() {
    const bodies = [asked("Name a colour."), asked("Name a colour.", { temperature: 9 })];
    const rows = bodies.map((body, n) => JSON.stringify({ custom_id: `r${n}`, method: "POST", url: "/v1/chat/completions", body }));
    const file = await client.files.create({ file: await toFile(Buffer.from(rows.join("\n")), "rows.jsonl"), purpose: "batch" });
    let batch = await client.batches.create({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" });
    for (let tries = 0; tries < 600 && !["completed", "failed"].includes(batch.status); tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      batch = await client.batches.retrieve(batch.id);
    }
    assert.deepEqual(batch.request_counts, { total: 2, completed: 1, failed: 1 });
    const line = JSON.parse(await (await client.files.content(batch.output_file_id)).text());
    assert.ok(line.response.body.choices[0].message.content);
    await client.files.delete(file.id);
  },
  async "models"() {
    const [model] = (await client.models.list()).data;
    assert.equal((await client.models.retrieve(model.id)).id, model.id);
  },
  async "a stream can be left"() {
    const stream = await client.chat.completions.create(asked("Tell a story.", { max_tokens: 900, stream: true }));
    for await (const chunk of stream) if (chunk.choices[0].delta.content) break;
    assert.ok(stream.controller.signal.aborted);
  },
};
await run(checks);
