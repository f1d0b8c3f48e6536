/**
 * Random conversations, written in each of the formats: valid by construction, every text with a word of its own.
 */
import * as fc from "fast-check"
import type { FormatName } from "../../../packages/core/src/history/Contract.ts"

export interface Step {
  readonly text: boolean
  readonly reasoning: boolean
  /** The provider runs a tool of its own besides. */
  readonly hosted: boolean
  readonly calls: number
}

export interface Turn {
  readonly steps: ReadonlyArray<Step>
  readonly answer: boolean
}

/** `open`: how many calls at the end have no result yet. */
export interface Conversation {
  readonly system: boolean
  readonly turns: ReadonlyArray<Turn>
  readonly open: number
}

const step = fc.record({
  text: fc.boolean(),
  reasoning: fc.boolean(),
  hosted: fc.boolean(),
  calls: fc.integer({ min: 1, max: 3 })
})
const turn = fc.record({ steps: fc.array(step, { maxLength: 3 }), answer: fc.boolean() })

export const conversation: fc.Arbitrary<Conversation> = fc.record({
  system: fc.boolean(),
  turns: fc.array(turn, { minLength: 1, maxLength: 5 }),
  open: fc.integer({ min: 0, max: 2 })
})

export type Json = { [key: string]: unknown }

interface Call {
  readonly id: string
  readonly name: string
  readonly args: Json
  /** Absent while the call waits. */
  readonly result: string | undefined
}

/** One thing said: the steps all formats are written from. */
type Event =
  | { readonly kind: "system"; readonly text: string }
  | { readonly kind: "user"; readonly text: string }
  | {
      readonly kind: "assistant"
      readonly text: string | undefined
      readonly reasoning: string | undefined
      readonly hosted: { readonly id: string; readonly result: string } | undefined
      readonly calls: ReadonlyArray<Call>
    }

const events = ({ open, system, turns }: Conversation): ReadonlyArray<Event> => {
  let count = 0
  const word = (kind: string) => `${kind}${++count}z`
  const list: Array<Event> = []
  if (system) list.push({ kind: "system", text: word("sys") })
  turns.forEach((turn, index) => {
    const isLast = index === turns.length - 1
    list.push({ kind: "user", text: word("usr") })
    turn.steps.forEach((step, number) => {
      const isOpen = isLast && number === turn.steps.length - 1 && open > 0
      const calls = Array.from({ length: step.calls }, (_, nth): Call => {
        const id = `id_${++count}`
        const hasResult = !isOpen || nth < step.calls - open
        return {
          id,
          name: ["read_file", "list_dir", "bash"][count % 3]!,
          args: { path: word("arg") },
          result: hasResult ? word("res") : undefined
        }
      })
      list.push({
        kind: "assistant",
        text: step.text ? word("txt") : undefined,
        reasoning: step.reasoning ? word("rea") : undefined,
        hosted: step.hosted ? { id: `host_${++count}`, result: word("web") } : undefined,
        calls
      })
    })
    const isWaiting = isLast && open > 0 && turn.steps.length > 0
    if (!isWaiting && !isLast)
      list.push({ kind: "assistant", text: word("ans"), reasoning: undefined, hosted: undefined, calls: [] })
    else if (!isWaiting && turn.answer) {
      list.push({ kind: "assistant", text: word("ans"), reasoning: undefined, hosted: undefined, calls: [] })
      list.push({ kind: "user", text: word("usr") })
    }
  })
  return list
}

const defined = <A>(...values: ReadonlyArray<A | undefined>): Array<A> => values.filter((value) => value !== undefined)

const writers: { readonly [K in FormatName]: (event: Event, index: number) => ReadonlyArray<Json> } = {
  "openai-chat": (event) => {
    if (event.kind !== "assistant") return [{ role: event.kind, content: event.text }]
    if (event.calls.length === 0) return [{ role: "assistant", content: event.text }]
    return [
      {
        role: "assistant",
        content: event.text ?? null,
        ...(event.reasoning === undefined ? {} : { reasoning_content: event.reasoning }),
        tool_calls: event.calls.map(({ args, id, name }) => ({
          id,
          type: "function",
          function: { name, arguments: JSON.stringify(args) }
        }))
      },
      ...event.calls.flatMap(({ id, result }): ReadonlyArray<Json> =>
        result === undefined ? [] : [{ role: "tool", tool_call_id: id, content: result }]
      )
    ]
  },
  "openai-responses": (event, index) => {
    const message = (role: string, text: string) => ({
      type: "message",
      role,
      content: [{ type: role === "assistant" ? "output_text" : "input_text", text }]
    })
    if (event.kind !== "assistant") return [message(event.kind, event.text)]
    const hasFollower = event.text !== undefined || event.calls.length > 0
    return [
      ...(event.reasoning === undefined || !hasFollower
        ? []
        : [{ type: "reasoning", id: `rs_${index}`, summary: [{ type: "summary_text", text: event.reasoning }] }]),
      ...(event.text === undefined ? [] : [{ ...message("assistant", event.text), id: `msg_${index}` }]),
      ...(event.hosted === undefined
        ? []
        : [
            {
              type: "web_search_call",
              id: event.hosted.id,
              status: "completed",
              action: { query: event.hosted.result }
            }
          ]),
      ...event.calls.map(({ args, id, name }) => ({
        type: "function_call",
        id: `fc_${id}`,
        call_id: id,
        name,
        arguments: JSON.stringify(args)
      })),
      ...event.calls.flatMap(({ id, result }): ReadonlyArray<Json> =>
        result === undefined ? [] : [{ type: "function_call_output", call_id: id, output: result }]
      )
    ]
  },
  anthropic: (event) => {
    if (event.kind === "system") return []
    if (event.kind === "user") return [{ role: "user", content: event.text }]
    const content = [
      ...(event.reasoning === undefined ? [] : [{ type: "thinking", thinking: event.reasoning, signature: "sig" }]),
      ...(event.hosted === undefined
        ? []
        : [
            { type: "server_tool_use", id: event.hosted.id, name: "web_search", input: {} },
            { type: "web_search_tool_result", tool_use_id: event.hosted.id, content: event.hosted.result }
          ]),
      ...(event.text === undefined ? [] : [{ type: "text", text: event.text }]),
      ...event.calls.map(({ args, id, name }) => ({ type: "tool_use", id, name, input: args }))
    ]
    const results = event.calls.flatMap(({ id, result }) =>
      result === undefined ? [] : [{ type: "tool_result", tool_use_id: id, content: result }]
    )
    return [{ role: "assistant", content }, ...(results.length === 0 ? [] : [{ role: "user", content: results }])]
  },
  gemini: (event) => {
    if (event.kind === "system") return []
    if (event.kind === "user") return [{ role: "user", parts: [{ text: event.text }] }]
    const parts = [
      ...defined(event.text, event.reasoning).map((text) => ({ text })),
      ...event.calls.map(({ args, name }, nth) => ({
        functionCall: { name, args },
        ...(nth === 0 ? { thoughtSignature: "sig" } : {})
      }))
    ]
    const results = event.calls.flatMap(({ name, result }) =>
      result === undefined ? [] : [{ functionResponse: { name, response: { output: result } } }]
    )
    return [{ role: "model", parts }, ...(results.length === 0 ? [] : [{ role: "user", parts: results }])]
  },
  "ai-sdk-model": (event, index) => {
    if (event.kind === "system") return [{ role: "system", content: event.text }]
    if (event.kind === "user") return [{ role: "user", content: [{ type: "text", text: event.text }] }]
    const isApproved = index % 3 === 0
    const content = [
      ...(event.reasoning === undefined ? [] : [{ type: "reasoning", text: event.reasoning }]),
      ...(event.text === undefined ? [] : [{ type: "text", text: event.text }]),
      ...(event.hosted === undefined ? [] : hostedParts(event.hosted)),
      ...event.calls.flatMap(({ args, id, name }): ReadonlyArray<Json> => [
        { type: "tool-call", toolCallId: id, toolName: name, input: args },
        ...(isApproved ? [{ type: "tool-approval-request", approvalId: `ap_${id}`, toolCallId: id }] : [])
      ])
    ]
    const results = event.calls.flatMap(({ id, name, result }): ReadonlyArray<Json> =>
      result === undefined
        ? []
        : [
            ...(isApproved ? [{ type: "tool-approval-response", approvalId: `ap_${id}`, approved: true }] : []),
            { type: "tool-result", toolCallId: id, toolName: name, output: { type: "text", value: result } }
          ]
    )
    return [{ role: "assistant", content }, ...(results.length === 0 ? [] : [{ role: "tool", content: results }])]
  },
  "ai-sdk-ui": (event, index) => {
    if (event.kind !== "assistant") {
      return [{ id: `m${index}`, role: event.kind, parts: [{ type: "text", text: event.text }] }]
    }
    const parts = [
      ...(index % 2 === 0 ? [{ type: "step-start" }] : []),
      ...(event.reasoning === undefined ? [] : [{ type: "reasoning", text: event.reasoning, state: "done" }]),
      ...(event.text === undefined ? [] : [{ type: "text", text: event.text }]),
      ...event.calls.map(({ args, id, name, result }, nth) => ({
        type: `tool-${name}`,
        toolCallId: id,
        input: args,
        ...(result !== undefined
          ? { state: "output-available", output: result }
          : nth % 2 === 0
            ? { state: "input-available" }
            : { state: "approval-requested", approval: { id: `ap_${id}` } })
      }))
    ]
    return [{ id: `m${index}`, role: "assistant", parts }]
  }
}

const hostedParts = ({ id, result }: { readonly id: string; readonly result: string }): ReadonlyArray<Json> => {
  const tool = { toolCallId: id, toolName: "web_search" }
  return [
    { type: "tool-call", ...tool, input: {}, providerExecuted: true },
    { type: "tool-result", ...tool, output: { type: "text", value: result } }
  ]
}

/** The conversation as messages of a format. */
export const write = (format: FormatName, conversation: Conversation): Array<Json> => {
  const messages = events(conversation).flatMap(writers[format])
  return format === "ai-sdk-ui" ? joinSteps(messages) : messages
}

// The SDK keeps the steps of one answer in one UI message.
const joinSteps = (messages: ReadonlyArray<Json>): Array<Json> =>
  messages.reduce<Array<Json>>((joined, message) => {
    const last = joined.at(-1)
    if (last?.["role"] !== "assistant" || message["role"] !== "assistant") return [...joined, message]
    const parts = [
      ...(last["parts"] as Array<unknown>),
      { type: "step-start" },
      ...(message["parts"] as Array<unknown>)
    ]
    return [...joined.slice(0, -1), { ...last, parts }]
  }, [])
