// How fast a history is verified: `node -C @turnstep/source bench/history.mjs`. One core, after parsing.
import { verify } from "@turnstep/core/history/Verify"
import { performance } from "node:perf_hooks"

const text = "The quick brown fox jumps over the lazy dog. ".repeat(8)

/** Conversations of turns with two calls at once: the usual shape of an agent's history. */
const shapes = {
  "openai-chat": (n) => [
    { role: "user", content: text },
    {
      role: "assistant",
      content: null,
      tool_calls: [0, 1].map((k) => ({
        id: `call_${n}_${k}`,
        type: "function",
        function: { name: "read_file", arguments: JSON.stringify({ path: `src/${n}/${k}.ts`, limit: 100 }) }
      }))
    },
    ...[0, 1].map((k) => ({ role: "tool", tool_call_id: `call_${n}_${k}`, content: text })),
    { role: "assistant", content: text }
  ],
  anthropic: (n) => [
    { role: "user", content: text },
    {
      role: "assistant",
      content: [0, 1].map((k) => ({
        type: "tool_use",
        id: `toolu_${n}_${k}`,
        name: "read_file",
        input: { path: `src/${n}/${k}.ts`, limit: 100 }
      }))
    },
    {
      role: "user",
      content: [0, 1].map((k) => ({ type: "tool_result", tool_use_id: `toolu_${n}_${k}`, content: text }))
    },
    { role: "assistant", content: [{ type: "text", text }] }
  ],
  "openai-responses": (n) => [
    { type: "message", role: "user", content: [{ type: "input_text", text }] },
    ...[0, 1].map((k) => ({
      type: "function_call",
      call_id: `call_${n}_${k}`,
      name: "read_file",
      arguments: JSON.stringify({ path: `src/${n}/${k}.ts`, limit: 100 })
    })),
    ...[0, 1].map((k) => ({ type: "function_call_output", call_id: `call_${n}_${k}`, output: text })),
    { type: "message", role: "assistant", content: [{ type: "output_text", text }] }
  ],
  gemini: (n) => [
    { role: "user", parts: [{ text }] },
    {
      role: "model",
      parts: [0, 1].map((k) => ({
        functionCall: { name: "read_file", args: { path: `src/${n}/${k}.ts`, limit: 100 } }
      }))
    },
    {
      role: "user",
      parts: [0, 1].map(() => ({ functionResponse: { name: "read_file", response: { output: text } } }))
    },
    { role: "model", parts: [{ text }] }
  ],
  "ai-sdk-model": (n) => [
    { role: "user", content: [{ type: "text", text }] },
    {
      role: "assistant",
      content: [0, 1].map((k) => ({
        type: "tool-call",
        toolCallId: `call_${n}_${k}`,
        toolName: "read_file",
        input: { path: `src/${n}/${k}.ts`, limit: 100 }
      }))
    },
    {
      role: "tool",
      content: [0, 1].map((k) => ({
        type: "tool-result",
        toolCallId: `call_${n}_${k}`,
        toolName: "read_file",
        output: { type: "text", value: text }
      }))
    },
    { role: "assistant", content: [{ type: "text", text }] }
  ],
  "ai-sdk-ui": (n) => [
    { id: `u${n}`, role: "user", parts: [{ type: "text", text }] },
    {
      id: `a${n}`,
      role: "assistant",
      parts: [
        { type: "step-start" },
        ...[0, 1].map((k) => ({
          type: "tool-read_file",
          toolCallId: `call_${n}_${k}`,
          state: "output-available",
          input: { path: `src/${n}/${k}.ts`, limit: 100 },
          output: text
        })),
        { type: "step-start" },
        { type: "text", text }
      ]
    }
  ]
}

const historyOf = (shape, size) => {
  const messages = []
  for (let turn = 0; messages.length < size; turn++) messages.push(...shape(turn))
  // Parsed, as every history comes: objects of a parser are not those of a literal.
  const json = JSON.stringify(messages.slice(0, size - (size % shape(0).length)))
  return { messages: JSON.parse(json), bytes: Buffer.byteLength(json) }
}

// A history that is kept may end with the model's words in every format.
const context = { purpose: "archive" }

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1]

console.log("| format | messages | MB of JSON | ms | MB/s | µs per message |")
console.log("|---|---|---|---|---|---|")
for (const [format, shape] of Object.entries(shapes)) {
  for (const size of [1_000, 10_000, 100_000]) {
    const { bytes, messages } = historyOf(shape, size)
    for (let warm = 0; warm < 3; warm++) verify(format, messages, context)
    const times = Array.from({ length: size > 10_000 ? 7 : 15 }, () => {
      const start = performance.now()
      const found = verify(format, messages, context)
      const time = performance.now() - start
      if (found.length > 0) throw new Error(`${format}: ${JSON.stringify(found[0])}`)
      return time
    })
    const ms = median(times)
    const row = [format, messages.length, (bytes / 1e6).toFixed(1), ms.toFixed(1)]
    console.log(`| ${[...row, Math.round(bytes / 1e3 / ms), ((ms * 1e3) / messages.length).toFixed(2)].join(" | ")} |`)
  }
}
