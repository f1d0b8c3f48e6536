/**
 * What a prompt says about the Turn that is being worked on.
 *
 * Owns: which user message drives, which ones steer, and how tool calls meet their
 * results. Does not own: what is answered (`Script`).
 *
 * A prompt does not mark where a Turn begins, so it is read from what is there:
 *
 * - V1. A user message that starts with a known `/intent` always opens a Turn.
 * - V2. Any other user message opens one only if none is open; else it steers. Where nothing has come yet of a message
 *   without an intent, such as the last one of an imported history, the next one takes its place.
 * - V3. A Turn closes with an assistant message that calls nothing, or when a user
 *   message follows calls that were cancelled, or whose results a repair made up: only the end of a Turn leaves those.
 * - V4. What the runtime itself asks in a user message (`Budget.handBackPrompt`) is no message of the user's.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { noMoreTools } from "@turnstep/core/Budget"

/** A call of the Turn with what came back. */
export interface DemoCall {
  readonly id: string
  readonly name: string
  readonly params: unknown
  /** Undefined while there is none. */
  readonly result: DemoResult | undefined
}

export interface DemoResult {
  readonly isFailure: boolean
  readonly value: unknown
  /** The runtime's own words when the tool gave no result (`cancelled`, `outcome unknown`, …). */
  readonly receipt: string | undefined
}

/** `/word rest` */
export interface Intent {
  readonly word: string
  readonly rest: string
}

/** One Turn as the prompt tells it. */
export interface Conversation {
  /** The message that drives the Turn. */
  readonly text: string
  readonly intent: Intent | undefined
  /** One entry per Step that called tools. */
  readonly batches: ReadonlyArray<ReadonlyArray<DemoCall>>
  /** User messages that came while the Turn ran. */
  readonly steers: ReadonlyArray<string>
  /** The Turn before, if it was cancelled or broken off (V3). */
  readonly cancelled: Conversation | undefined
}

/** Reads the Turn being worked on; `known` are the intents that open one (V1). */
export const read = (messages: ReadonlyArray<Prompt.Message>, known: ReadonlySet<string>): Conversation => {
  let turn: Draft | undefined
  for (const message of messages) {
    switch (message.role) {
      case "system":
        break
      case "user": {
        const text = textOf(message)
        if (text.includes(noMoreTools)) break // V4
        const intent = intentOf(text)
        const isKnown = intent !== undefined && known.has(intent.word)
        const cancelled = turn !== undefined && wasCancelled(turn) ? turn : undefined
        const unanswered = turn !== undefined && !turn.isClosed && turn.batches.length === 0 && !isDriven(turn, known)
        if (turn === undefined || turn.isClosed || isKnown || cancelled !== undefined || unanswered) {
          const before = cancelled ?? (unanswered ? turn?.cancelled : undefined)
          turn = { text, intent, batches: [], steers: [], cancelled: before, isClosed: false }
        } else turn.steers.push(text)
        break
      }
      case "assistant": {
        turn ??= { text: "", intent: undefined, batches: [], steers: [], cancelled: undefined, isClosed: false }
        const calls = message.content.filter((part) => part.type === "tool-call")
        if (calls.length > 0)
          turn.batches.push(calls.map(({ id, name, params }) => ({ id, name, params, result: undefined })))
        else turn.isClosed = true
        break
      }
      case "tool": {
        for (const part of message.content) {
          if (part.type === "tool-result" && turn !== undefined) settle(turn, part)
        }
        break
      }
    }
  }
  return turn ?? { text: "", intent: undefined, batches: [], steers: [], cancelled: undefined }
}

const isDriven = ({ intent }: Draft, known: ReadonlySet<string>): boolean =>
  intent !== undefined && known.has(intent.word)

/** `/word rest`, if a text starts so. */
export const intentOf = (text: string): Intent | undefined => {
  const found = /^\s*\/([a-z][\w-]*)\s*([^]*)$/i.exec(text)
  return found === null ? undefined : { word: (found[1] ?? "").toLowerCase(), rest: (found[2] ?? "").trim() }
}

/** All calls of a Turn, in order. */
export const callsOf = (turn: Conversation): ReadonlyArray<DemoCall> => turn.batches.flat()

/** The highest number the demo has given a call in this prompt, so that the next one is new. */
export const lastCallNumber = (messages: ReadonlyArray<Prompt.Message>): number => {
  let last = 0
  for (const message of messages) {
    if (message.role !== "assistant") continue
    for (const part of message.content) {
      if (part.type === "tool-call") last = Math.max(last, Number(/^demo_(\d{1,9})$/.exec(part.id)?.[1] ?? 0))
    }
  }
  return last
}

/** Characters of everything in the prompt: what the demo counts its usage by. */
export const lengthOf = (messages: ReadonlyArray<Prompt.Message>): number => {
  let length = 0
  for (const message of messages) {
    if (message.role === "system") {
      length += message.content.length
      continue
    }
    for (const part of message.content) {
      if (part.type === "text" || part.type === "reasoning") length += part.text.length
      else if (part.type === "tool-call") length += part.name.length + jsonLength(part.params)
      else if (part.type === "tool-result") length += jsonLength(part.result)
    }
  }
  return length
}

interface Draft extends Conversation {
  readonly batches: Array<ReadonlyArray<DemoCall>>
  readonly steers: Array<string>
  isClosed: boolean
}

const textOf = (message: Prompt.UserMessage): string =>
  message.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")

const settle = (turn: Draft, part: Prompt.ToolResultPart): void => {
  const receipt = typeof part.result === "string" ? receiptPattern.exec(part.result)?.[1] : undefined
  const result: DemoResult = { isFailure: part.isFailure, value: fromJson(part.result), receipt }
  // ids are looked up from the end: a provider may use one again in a later Step
  const at = turn.batches.findLastIndex((batch) => batch.some((call) => call.id === part.id))
  const batch = turn.batches[at]
  if (batch === undefined) return
  turn.batches[at] = batch.map((call) => (call.id === part.id ? { ...call, result } : call))
}

/** By these words receipts are known, and what a repair wrote in place of a result. */
const receiptPattern = /^\[(?:receipt|synthetic): ([^\]]+)\]/

/** A result may come as it is or as its JSON text. */
const fromJson = (result: unknown): unknown =>
  typeof result === "string" && result.startsWith("{") ? Option.getOrElse(decodeJson(result), () => result) : result

const decodeJson = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Unknown))

const wasCancelled = (turn: Draft): boolean =>
  turn.batches.at(-1)?.some(({ result }) => result?.receipt !== undefined && lastWords.has(result.receipt)) ?? false

/** Receipts after which nothing of the Turn follows. */
const lastWords: ReadonlySet<string> = new Set(["cancelled", "not started", "interrupted"])

const jsonLength = (value: unknown): number => JSON.stringify(value)?.length ?? 0
