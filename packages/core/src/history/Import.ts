/**
 * From a history that some other system wrote to messages of a session.
 *
 * Owns: what is read, under which ids, and the report. Does not own: the rules (`Repair`), the forms (`codecs/`), or the
 * session (`runtime/SessionHistory`).
 *
 * - I1. What comes out can be sent to any provider: every call has its one result right behind it, ids are legal everywhere
 *   and unique, names are legal.
 * - I2. Nothing is left out silently: `changes` names what the repair did, `lost` what messages of a session cannot carry.
 * - I3. No call is left open. Nobody here waits for its result, so it is answered with what is known: its outcome is not.
 * - I4. A format is never guessed. Where several are possible, it is unclear only if they read the messages differently.
 */
import * as Schema from "effect/Schema"
import * as Canonical from "../Canonical.ts"
import type { Answer, PastMessage, PastPart } from "../Transcript.ts"
import * as Transcript from "../Transcript.ts"
import type { Lost } from "./Codec.ts"
import { unheard } from "./Codec.ts"
import { codecs } from "./Codecs.ts"
import { Change, type Context, Finding, FormatName } from "./Contract.ts"
import { detect } from "./Detect.ts"
import * as FirstCome from "./FirstCome.ts"
import { minter } from "./NewId.ts"
import { repair } from "./Repair.ts"
import { legal } from "./ToolName.ts"

/** Several formats write such messages, and mean different things by them. */
export class HistoryFormatUnclear extends Schema.TaggedError<HistoryFormatUnclear>()("HistoryFormatUnclear", {
  candidates: Schema.Array(FormatName)
}) {
  override get message() {
    return `The messages could be written in several formats; name one of ${this.candidates.join(", ")}.`
  }
}

/** Nothing of the history is a message that a session could go on from. */
export class HistoryEmpty extends Schema.TaggedError<HistoryEmpty>()("HistoryEmpty", { format: FormatName }) {
  override get message() {
    return `There is no message in it to go on from (read as ${this.format}).`
  }
}

/** A history as it is given. */
export interface History {
  readonly messages: ReadonlyArray<unknown>
  /** Recognised when it is left out (I4). */
  readonly format?: FormatName | undefined
  /** What is known of the request it was for; `turn` and `purpose` are decided here (I3). */
  readonly context?: Context | undefined
}

/** What was done to a history. Pointers of `changes` and `remaining` as in `Repair`, of `lost` into the repaired messages. */
export const ImportReport = Schema.Struct({
  format: FormatName,
  /** Messages the session has of it: what a user or the model said, and the results of a batch, are one each. */
  messages: Schema.Int,
  changes: Schema.Array(Change),
  /** What no rule could mend in its own format. It does not keep the session from going on. */
  remaining: Schema.Array(Finding),
  lost: Schema.Array(Schema.Struct({ at: Schema.String, note: Schema.String, content: Schema.Unknown }))
})
export type ImportReport = typeof ImportReport.Type

/** The messages of a session, and the report. */
export interface Imported {
  readonly messages: ReadonlyArray<PastMessage>
  readonly report: ImportReport
}

/** Reads a history, repaired; pure, and linear in its length. */
export const read = (history: History): Imported | HistoryFormatUnclear | HistoryEmpty => {
  const formats = history.format === undefined ? candidatesOf(history.messages) : [history.format]
  const found = formats.map((format) => readAs(format, history))
  const [first] = found
  if (first === undefined || new Set(found.map(digestOf)).size > 1) {
    return new HistoryFormatUnclear({ candidates: formats })
  }
  return first.messages.length === 0 ? new HistoryEmpty({ format: first.report.format }) : first
}

/** What a history is known by. */
export const digestOf = ({ messages }: Pick<Imported, "messages">): string => Canonical.digest(messages)

const candidatesOf = (messages: ReadonlyArray<unknown>): ReadonlyArray<FormatName> => {
  const found = detect(messages)
  if (found._tag === "Detected") return [found.format]
  return messages.length === 0 ? found.candidates.slice(0, 1) : found.candidates
}

const readAs = (format: FormatName, { context, messages }: History): Imported => {
  const settled: Context = { ...context, turn: "terminated", purpose: "archive" }
  const { changes, messages: repaired, remaining } = repair(format, messages, settled)
  const { lost, messages: found } = codecs[format].read(repaired)
  const portable = makePortable(found)
  // What was lost may have stood between others; the neutral form tells whether all is still in order (I1).
  const neutral = codecs["ai-sdk-model"]
  const written = neutral.write(portable.map(Transcript.pastMessage), () => unheard)
  const again = repair("ai-sdk-model", written, { turn: "terminated", purpose: "archive" })
  const sound = again.changes.length === 0 ? portable : makePortable(neutral.read(again.messages).messages)
  return {
    messages: sound,
    report: {
      format,
      messages: sound.length,
      changes: [...changes, ...again.changes],
      remaining,
      lost: lost.map(({ at, content, note }: Lost) => ({ at, note, content }))
    }
  }
}

/** I1: legal ids and names, answers in the order of the calls, no empty messages. */
const makePortable = (messages: ReadonlyArray<PastMessage>): ReadonlyArray<PastMessage> => {
  const used = new Set<string>()
  const mint = minter(new Set(messages.flatMap(callsOf)))
  let batch: ReadonlyArray<{ readonly was: string; readonly is: string; readonly name: string }> = []
  return messages.flatMap((message): ReadonlyArray<PastMessage> => {
    switch (message.role) {
      case "user":
        return [message]
      case "assistant": {
        const calls: Array<(typeof batch)[number]> = []
        const parts = message.parts.flatMap((part): ReadonlyArray<PastPart> => {
          if (part.type !== "tool-call") return part.text === "" && part.options === undefined ? [] : [part]
          const is = isPortable(part.wireId) && !used.has(part.wireId) ? part.wireId : mint()
          used.add(is)
          const name = legal(part.name)
          calls.push({ was: part.wireId, is, name })
          return [{ ...part, wireId: is, name }]
        })
        batch = calls
        return parts.length === 0 ? [] : [{ role: "assistant", parts }]
      }
      case "tool": {
        const left = FirstCome.make<Answer>()
        for (const answer of message.answers) left.add(answer, [answer.wireId])
        const given = batch.flatMap(({ is, name, was }): ReadonlyArray<Answer> => {
          const answer = left.take([was])
          return answer === undefined ? [] : [{ ...answer, wireId: is, name }]
        })
        const answers = [...given, ...left.rest()]
        return answers.length === 0 ? [] : [{ role: "tool", answers }]
      }
    }
  })
}

const callsOf = (message: PastMessage): ReadonlyArray<string> =>
  message.role === "assistant" ? message.parts.flatMap((part) => (part.type === "tool-call" ? [part.wireId] : [])) : []

/** An id every provider takes, and none that a call of the session could get. */
const isPortable = (id: string): boolean => /^[A-Za-z0-9_-]{1,40}$/.test(id) && !id.startsWith("cal_")
