/**
 * What every request passes before it leaves (mechanism C4): its messages keep the contract of their provider.
 *
 * Owns: what is looked at again from request to request, and what is sent instead of a request that would be refused.
 * Does not own: the rules (`Verify`, `Repair`), how a message is written (`codecs/`), what is made of a finding (the runtime).
 *
 * - G1. What is judged is the form in which it leaves: the same encoder writes for the gate and for the wire.
 * - G2. A request costs what is new in it, not what the history is long. Messages that have passed stay passed: only the last
 *   answer of the model with what follows is looked at again, and no earlier result can be missing, for it passed.
 * - G3. A history that is not the one that passed is judged as a whole.
 * - G4. A finding never stops a request: it is repaired by rule; what no rule can mend goes out as it is.
 * - G5. What a request shows otherwise than the history has it is judged with it, and forgotten with it.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Transcript from "../Transcript.ts"
import { codecs } from "./Codecs.ts"
import type { Change, Context, Finding, FormatName } from "./Contract.ts"
import { rulesFor } from "./Contract.ts"
import { formats } from "./Formats.ts"
import type { JsonObject } from "./Json.ts"
import { repair } from "./Repair.ts"
import { refusals, verify } from "./Verify.ts"

/** How the messages of a model leave. */
export interface Wire {
  readonly format: FormatName
  /** What is known of the provider: its profile above all. */
  readonly contract: Context
  /** A message in the form it leaves in. */
  readonly write: (message: Prompt.Message) => ReadonlyArray<JsonObject>
  /** Why the wire cannot carry a file, in words; `undefined` when it can. Absent when the wire carries every file. */
  readonly uncarried?: ((file: Prompt.FilePart) => string | undefined) | undefined
}

/** The messages of a request: `window` is the history, which only grows; the others are of this request alone. */
export interface Request {
  readonly lead: ReadonlyArray<Prompt.Message>
  readonly window: ReadonlyArray<Prompt.Message>
  readonly tail: ReadonlyArray<Prompt.Message>
  /** A message of the window as this request alone has it; nothing of that is remembered (G5). */
  readonly shown?: ((message: Prompt.Message) => Prompt.Message) | undefined
}

/** What is to be sent. Pointers of `findings` point into the messages as they would have left. */
export interface Passed {
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly findings: ReadonlyArray<Finding>
  readonly changes: ReadonlyArray<Change>
}

export interface RequestGate {
  readonly pass: (request: Request) => Passed
}

/** What is known of the part of a window that has passed. */
interface Known {
  readonly size: number
  readonly first: Prompt.Message | undefined
  readonly last: Prompt.Message | undefined
  /** What was sent in its place, if it was repaired. */
  readonly sent: ReadonlyArray<Prompt.Message> | undefined
  /** The last answer of the model and what follows it, as written. */
  readonly frontier: ReadonlyArray<JsonObject>
  /** Ids of all calls that have passed. */
  readonly ids: Set<string>
}

export const make = ({ contract, format: name, write }: Wire): RequestGate => {
  // No call of a request is still to be answered.
  const context: Context = { ...contract, turn: "terminated" }
  const format = formats[name]
  const { callIdScope } = rulesFor(name, context)
  const standIn = format.note("user", "The conversation so far.")
  const known = new WeakMap<ReadonlyArray<Prompt.Message>, Known>()

  const idsOf = (written: ReadonlyArray<JsonObject>): ReadonlyArray<string> =>
    written.flatMap((message, index) => format.entry(message, index).calls.flatMap(({ id }) => id ?? []))

  const frontierOf = (written: ReadonlyArray<JsonObject>): ReadonlyArray<JsonObject> =>
    written.slice(
      Math.max(
        0,
        written.findLastIndex((message, index) => format.entry(message, index).role === "assistant")
      )
    )

  const isGrown = ({ first, last, size }: Known, window: ReadonlyArray<Prompt.Message>): boolean =>
    size <= window.length && window[0] === first && window[size - 1] === last

  const learn = (
    window: ReadonlyArray<Prompt.Message>,
    written: ReadonlyArray<JsonObject>,
    ids: Set<string>,
    sent: Known["sent"]
  ): void => {
    const frontier = frontierOf(written)
    known.set(window, { size: window.length, first: window[0], last: window.at(-1), sent, frontier, ids })
  }

  /** The request, if all that is new in it may follow what has passed (G2). */
  const follow = (
    before: Known,
    { lead, shown = asItIs, tail, window }: Request
  ): ReadonlyArray<Prompt.Message> | undefined => {
    const fresh = window.slice(before.size)
    const written = fresh.flatMap((message) => write(shown(message)))
    const ids = idsOf(written)
    if (callIdScope === "history" && ids.some((id) => before.ids.has(id))) return undefined
    const seen = [...lead.flatMap(write), standIn, ...before.frontier, ...written, ...tail.flatMap(write)]
    if (refusals(verify(name, seen, context)).length > 0) return undefined
    const sent = before.sent === undefined ? undefined : [...before.sent, ...fresh]
    for (const id of ids) before.ids.add(id)
    learn(window, [...before.frontier, ...written], before.ids, sent)
    return [...lead, ...(shown === asItIs ? (sent ?? window) : (sent ?? window).map(shown)), ...tail]
  }

  const pass = (request: Request): Passed => {
    const { lead, shown = asItIs, tail, window } = request
    const before = known.get(window)
    const isKnown = before !== undefined && isGrown(before, window)
    const followed = isKnown ? follow(before, request) : undefined
    if (followed !== undefined) return { messages: followed, findings: [], changes: [] }
    // G3
    const repaired = isKnown ? before.sent : undefined
    const history = repaired === undefined ? window : [...repaired, ...window.slice(before?.size)]
    const all = [...lead, ...history.map(shown), ...tail]
    const forms = all.map(write)
    const written = forms.flat()
    const findings = refusals(verify(name, written, context))
    if (findings.length === 0) {
      const own = forms.slice(lead.length, all.length - tail.length).flat()
      learn(window, own, new Set(idsOf(own)), repaired === undefined ? undefined : history)
      return { messages: all, findings, changes: [] }
    }
    const { changes, messages } = repair(name, written, context)
    const sent = restored(name, all, forms, messages)
    const end = tail.length === 0 ? sent.length : sent.indexOf(tail[0]!)
    const start = lead.length === 0 ? 0 : sent.indexOf(lead.at(-1)!) + 1
    const asTheyWere = new Map(history.map((message, index) => [all[lead.length + index], message]))
    const isKept = new Set(sent)
    // G5: a message that is shown otherwise and was changed is both, and cannot be told apart.
    const isMixed = [...asTheyWere].some(([message, was]) => message !== was && !isKept.has(message!))
    if (end < start || isMixed) known.delete(window)
    else {
      const kept = sent.slice(start, end).map((message) => asTheyWere.get(message) ?? message)
      const own = kept.flatMap(write)
      learn(window, own, new Set(idsOf(own)), kept)
    }
    return { messages: sent, findings, changes }
  }

  return { pass }
}

const asItIs = (message: Prompt.Message): Prompt.Message => message

/** The messages of a repair: those it left alone are the same objects again, all others are read from what it wrote. */
const restored = (
  name: FormatName,
  originals: ReadonlyArray<Prompt.Message>,
  forms: ReadonlyArray<ReadonlyArray<JsonObject>>,
  repaired: ReadonlyArray<unknown>
): ReadonlyArray<Prompt.Message> => {
  const owners = new Map<unknown, number>()
  forms.forEach((form, index) => {
    if (form.length > 0) owners.set(form[0], index)
  })
  const messages: Array<Prompt.Message> = []
  let changed: Array<unknown> = []
  const flush = () => {
    for (const message of codecs[name].read(changed).messages) messages.push(Transcript.pastMessage(message))
    changed = []
  }
  for (let at = 0; at < repaired.length;) {
    const owner = owners.get(repaired[at])
    const form = owner === undefined ? undefined : forms[owner]
    if (owner !== undefined && form?.every((part, offset) => part === repaired[at + offset]) === true) {
      flush()
      messages.push(originals[owner]!)
      at += form.length
    } else changed.push(repaired[at++])
  }
  flush()
  return messages
}
