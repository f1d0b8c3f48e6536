/**
 * What the rules need to know about a message format: one interface, six implementations in `formats/`.
 *
 * A format shows each message as a neutral `Entry` (its role, its calls and results) and can rewrite its own messages.
 * Owns: these forms. Does not own: any rule.
 */
import type { Choice, Code, Context, FormatName, Rules, Severity, Action } from "./Contract.ts"
import type { JsonObject } from "./Json.ts"

/** Who speaks. `aside`: an item that belongs to the answer around it and separates nothing. */
export type Role = "system" | "user" | "assistant" | "tool" | "aside"

/** Where a call or a result stands: the message, and its place in the message's list (-1: the message itself). */
export interface Place {
  readonly message: number
  readonly slot: number
}

/** A tool call. */
export interface Call extends Place {
  readonly id: string | undefined
  readonly name: string
  readonly args: unknown
  /** The kind of call; a result must be of the kind that answers it. */
  readonly family: string
  /** Provider-executed: needs no result of ours. */
  readonly isExempt: boolean
  /** Its result stands in the same message, written by the provider. */
  readonly hasOwnResult: boolean
}

/** The result of a tool call. */
export interface Result extends Place {
  readonly id: string | undefined
  readonly name: string | undefined
  readonly family: string
  /** Other content stands in front of it in its message. */
  readonly isLate: boolean
}

/** A message as the rules see it. */
export interface Entry {
  readonly role: Role
  /** It says something besides results, so that the batch in front of it is over. */
  readonly speaks: boolean
  readonly calls: ReadonlyArray<Call>
  readonly results: ReadonlyArray<Result>
}

/** Why a call has no result, and whether it may still get one. */
export interface Wait {
  readonly code: Code
  readonly canWait: boolean
}

/** Something wrong inside one message or part, with the values that take its place. No `fix`: see `choices`. */
export interface Blemish {
  readonly code: Code
  readonly severity: Severity
  /** Pointer below the message or part. */
  readonly path: string
  readonly message: string
  readonly choices?: ReadonlyArray<Choice>
  readonly fix?: {
    readonly to: ReadonlyArray<unknown>
    readonly action: Action
    readonly note: string
    readonly dropped?: ReadonlyArray<unknown>
  }
}

/** A change of the message list at one index: what stands there instead, and what comes before and after. */
export interface Edit {
  readonly index: number
  readonly replace?: ReadonlyArray<unknown>
  readonly before?: ReadonlyArray<unknown>
  readonly after?: ReadonlyArray<unknown>
  readonly action: Action
  readonly note: string
  readonly dropped?: ReadonlyArray<unknown>
}

/** A fault with its place. Its `edits` mend it; a fault with neither edits nor choices is mended along with another. */
export interface Fault {
  readonly code: Code
  readonly severity: Severity
  readonly index: number
  /** Pointer below the message. */
  readonly path: string
  readonly message: string
  readonly choices?: ReadonlyArray<Choice>
  readonly edits?: ReadonlyArray<Edit>
}

/** How an answer stands to its batch. `carried`: it was matched to a copy of the call. */
export type Where = "adjacent" | "split" | "apart" | "carried"

export interface Answer {
  readonly result: Result
  readonly where: Where
}

/** The calls of one answer of the model, with what answers them. */
export interface Batch {
  readonly first: number
  /** The last message that holds a call of this batch. */
  readonly last: number
  readonly calls: ReadonlyArray<Call>
  readonly answers: ReadonlyArray<Answer | undefined>
  /** Results beyond the first of a call. */
  readonly extras: ReadonlyArray<Result>
  /** Calls whose id was seen before: in this batch or an earlier one. */
  readonly repeats: ReadonlyMap<number, "batch" | "history">
  /** Calls that are copies (P4). */
  readonly copies: ReadonlySet<number>
}

export interface Pairing {
  readonly batches: ReadonlyArray<Batch>
  readonly orphans: ReadonlyArray<Result>
  /** Nobody has spoken since the last batch: its unanswered calls may still be answered. */
  readonly isLive: boolean
}

/** A history on the bench: the messages, and what is known about them. */
export interface History {
  readonly format: Format
  readonly messages: ReadonlyArray<unknown>
  readonly context: Context
  readonly rules: Rules
  readonly entries: ReadonlyArray<Entry>
  readonly pairing: Pairing
  /** Calls that wait for their result, by message and place; they are not touched. */
  readonly suspended: ReadonlyMap<number, ReadonlySet<number>>
}

/** What is known before the suspended calls are. */
export type Draft = Omit<History, "suspended">

/** How the calls and results of a format are rewritten. */
export interface CallForm {
  /** The key of the list that holds calls; `undefined`: a call is a message of its own. */
  readonly callList: string | undefined
  /** The key of the list that holds results; `undefined`: a result is a message of its own. */
  readonly resultList: string | undefined
  /** Pointer below a call or a result to the id it carries. */
  readonly idPath: (value: JsonObject, isResult: boolean) => string
  readonly withId: (value: JsonObject, isResult: boolean, id: string) => JsonObject
  /** A batch may go on over several messages, as long as only asides stand between. */
  readonly isRun: boolean
  /** Where ids are absent, results are matched by the name of the tool. */
  readonly isByName: boolean
  /** The results that answer a call nobody answered; `undefined` if the format has no honest way to say it. */
  readonly answer: (call: Call, wait: Wait, history: Draft) => ReadonlyArray<JsonObject> | undefined
  /** Why a call waits; asked only for calls without a result. */
  readonly wait?: (call: Call, history: Draft) => Wait
  /** The result in the kind its call asks for. */
  readonly retype?: (result: JsonObject, call: Call) => JsonObject
  /** Whether a result of this kind answers a call of that kind. */
  readonly answers?: (result: Result, call: Call) => boolean
  /** Where results are parts of a message: which message takes them in, in front or behind its parts, and a new one. */
  readonly host?: {
    readonly accepts: (message: JsonObject) => boolean
    readonly isInFront: boolean
    readonly make: (results: ReadonlyArray<unknown>) => JsonObject
  }
  /** A message after calls or results were taken out, in a legal form; `undefined` if it has nothing left to say. */
  readonly remainder: (message: JsonObject) => JsonObject | undefined
  /** Other parts of a message that name a call by its id, given the parts before and after renaming. */
  readonly renameAlong?: (before: ReadonlyArray<unknown>, after: ReadonlyArray<unknown>) => ReadonlyArray<unknown>
  /** Where results are matched by name: whether one names another tool than its call, and the result with that name. */
  readonly misnamed?: {
    readonly is: (result: Result, call: Call) => boolean
    readonly path: string
    readonly withName: (result: JsonObject, name: string) => JsonObject
  }
  /** The content of a result as text. */
  readonly resultText: (result: JsonObject) => string
}

/** The parts of a message that are looked at one by one. */
export interface PartForm {
  readonly list: string
  readonly inspect: (part: unknown, message: JsonObject, history: History) => ReadonlyArray<Blemish> | undefined
}

/** A message format. */
export interface Format {
  readonly name: FormatName
  readonly entry: (message: unknown, index: number) => Entry
  /** Absent where calls and results are one part (`ai-sdk-ui`). */
  readonly calls?: CallForm
  /** Suspended calls of a format without `calls`. */
  readonly suspended?: (history: Draft) => ReadonlyArray<Place>
  readonly parts: ReadonlyArray<PartForm>
  /** Faults of one message as a whole; replacements are messages. */
  readonly inspect: (message: JsonObject, index: number, history: History) => ReadonlyArray<Blemish> | undefined
  /** Faults that only several messages together show. */
  readonly sequence: ReadonlyArray<(history: History) => ReadonlyArray<Fault>>
  /** A message with nothing but text. */
  readonly note: (role: "user" | "assistant", text: string) => JsonObject
  /** A part with nothing but text. */
  readonly textPart: (text: string) => JsonObject
}

/** What is looked for when nothing is wrong. */
export const silent: Entry = { role: "aside", speaks: false, calls: [], results: [] }
export const system: Entry = { ...silent, role: "system" }
export const user: Entry = { ...silent, role: "user", speaks: true }
export const assistant: Entry = { ...silent, role: "assistant", speaks: true }

/** A client's call. */
export const callAt = (
  message: number,
  slot: number,
  id: string | undefined,
  name: string,
  args: unknown,
  family = ""
): Call => ({ message, slot, id, name, args, family, isExempt: false, hasOwnResult: false })

/** A result that names its call by id. */
export const resultAt = (
  message: number,
  slot: number,
  id: string | undefined,
  family = "",
  isLate = false,
  name?: string
): Result => ({ message, slot, id, name, family, isLate })
