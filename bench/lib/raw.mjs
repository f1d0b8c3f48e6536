// The loop people write by hand, with no framework: the floor everything else is compared with.
import http from "node:http"
import { lookup, OPENAI_TOOLS, SYSTEM } from "./job.mjs"

/** Puts one assistant message together from the bytes of a stream. */
export const assembler = (onDelta) => {
  const decoder = new TextDecoder()
  let rest = ""
  let content = ""
  let calls
  const take = (delta) => {
    if (delta.content) {
      content += delta.content
      onDelta?.(delta.content)
    }
    for (const piece of delta.tool_calls ?? []) {
      calls ??= []
      calls[piece.index] ??= { id: piece.id, type: "function", function: { name: piece.function.name, arguments: "" } }
      calls[piece.index].function.arguments += piece.function.arguments ?? ""
    }
  }
  return {
    push: (bytes) => {
      rest += decoder.decode(bytes, { stream: true })
      for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
        const data = rest.slice(6, end)
        rest = rest.slice(end + 2)
        if (data === "[DONE]") continue
        const delta = JSON.parse(data).choices[0]?.delta
        if (delta !== undefined) take(delta)
      }
    },
    message: () =>
      calls === undefined
        ? { role: "assistant", content }
        : { role: "assistant", content: content || null, tool_calls: calls }
  }
}

/** A request by `fetch`. */
export const fetchTransport = (baseURL) => async (body, onDelta) => {
  const response = await fetch(`${baseURL}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body
  })
  if (!response.ok) throw new Error(`HTTP ${response.status} ${await response.text()}`)
  const message = assembler(onDelta)
  for await (const bytes of response.body) message.push(bytes)
  return message.message()
}

/** A request by node:http on kept connections. */
export const httpTransport = (baseURL) => {
  const agent = new http.Agent({ keepAlive: true })
  const url = new URL(`${baseURL}/chat/completions`)
  return (body, onDelta) =>
    new Promise((resolve, reject) => {
      const bytes = Buffer.from(body)
      const headers = { "content-type": "application/json", "content-length": bytes.length }
      const request = http.request(url, { method: "POST", agent, headers }, (response) => {
        const message = assembler(onDelta)
        response.on("data", message.push)
        response.on("end", () =>
          response.statusCode === 200 ? resolve(message.message()) : reject(new Error(`HTTP ${response.statusCode}`))
        )
      })
      request.on("error", reject)
      request.end(bytes)
    })
}

const bodyOf = (messages) =>
  JSON.stringify({
    model: "mock",
    stream: true,
    stream_options: { include_usage: true },
    messages,
    tools: OPENAI_TOOLS
  })

/** One turn. A durable floor commits in `onAssistant` (the answer, before its tools run) and `onStep` (with results). */
export const rawTurn = async ({ call, messages, onDelta, onAssistant, onStep }) => {
  for (let step = 0; ; step++) {
    const answer = await call(bodyOf(messages), onDelta)
    messages.push(answer)
    if (onAssistant !== undefined) await onAssistant(step, answer)
    const results = (answer.tool_calls ?? []).map((each) => ({
      role: "tool",
      tool_call_id: each.id,
      content: lookup(JSON.parse(each.function.arguments))
    }))
    messages.push(...results)
    if (onStep !== undefined) await onStep(step, answer, results)
    if (results.length === 0) return answer.content
  }
}

/** The history of a new session. */
export const newHistory = () => [{ role: "system", content: SYSTEM }]
