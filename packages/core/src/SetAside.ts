/**
 * The files of a session that a model refused: its requests have words in their place.
 *
 * A file is part of every later request, so one that is refused for good would end every later Turn. The record keeps the file;
 * what changes is the window of the model that refused it.
 *
 * Owns: which files a refusal can mean, and the window with words in their place. Does not own: which refusals are about
 * content (`runtime/model/ContentRefusal`), or when a fact is written (`Step`).
 *
 * - A1. Files that a model has answered are set aside only when nothing else is left: what was accepted once is seldom at fault.
 * - A2. A window keeps its identity and that of its messages from request to request, until another file is set aside.
 */
import * as Prompt from "effect/ai/Prompt"
import type { MessageId } from "./Ids.ts"
import type { AssistantPart, PastPart, UserPart } from "./Transcript.ts"
import type { DataOf } from "./TurnEvent.ts"

/** What a refusal is about; `any` when it names no kind of content. */
export type Kind = "image" | "audio" | "video" | "any"

/** A file of the session: `message` counts the session's messages from 0, `part` the parts of the message. */
export interface Medium {
  readonly message: number
  readonly part: number
  /** Absent in a history from elsewhere. */
  readonly messageId: MessageId | undefined
  readonly mediaType: string
  readonly fileName: string | undefined
}

interface OfModel {
  /** Messages that were there when it last answered. */
  answered: number
  /** Words in the place of files, by message and part. */
  readonly words: Map<number, Map<number, string>>
  window: Array<Prompt.Message> | undefined
}

export interface SetAside {
  readonly media: Array<Medium>
  /** Messages so far. */
  messages: number
  readonly models: Map<string, OfModel>
}

export const make = (): SetAside => ({ media: [], messages: 0, models: new Map() })

/** Counts a message, and notes its files. */
export const added = (
  state: SetAside,
  parts: ReadonlyArray<UserPart | AssistantPart | PastPart>,
  messageId?: MessageId
): void => {
  const message = state.messages++
  parts.forEach((part, index) => {
    if (part.type !== "file") return
    state.media.push({ message, part: index, messageId, mediaType: part.mediaType, fileName: part.fileName })
  })
}

/** The model has answered all messages so far. */
export const answered = (state: SetAside, model: string): void => {
  ofModel(state, model).answered = state.messages
}

/** Sets files aside; `false` when one of them is not a file of the session, or is set aside already. */
export const apply = (state: SetAside, { by, model, parts, reason }: DataOf<"content.set-aside">): boolean => {
  const { words } = ofModel(state, model)
  for (const { message, part } of parts) {
    const medium = state.media.find((medium) => medium.message === message && medium.part === part)
    const inMessage = words.get(message) ?? new Map<number, string>()
    if (medium === undefined || inMessage.has(part)) return false
    inMessage.set(part, wordsFor(medium, by, reason))
    words.set(message, inMessage)
  }
  ofModel(state, model).window = undefined
  return true
}

/**
 * The files to set aside after a refusal of this kind (A1): those of the newest message that the model has not answered, then
 * the others it has not answered, then all. Empty when no file is left.
 */
export const next = (state: SetAside, model: string, kind: Kind): ReadonlyArray<Medium> => {
  const left = sent(state, model)
  const named = left.filter(({ mediaType }) => kind === "any" || kindOf(mediaType) === kind)
  const candidates = named.length > 0 ? named : left
  const fresh = candidates.filter(({ message }) => message >= ofModel(state, model).answered)
  const newest = fresh.at(-1)?.message
  const first = fresh.filter(({ message }) => message === newest)
  // The first refusal in a step is taken for the newest message, the second one for all that is new.
  const isSecond = fresh.length > 0 && newest !== undefined && hasWords(state, model, newest + 1)
  return fresh.length === 0 ? candidates : isSecond ? fresh : first
}

/** The files that the model is still sent. */
export const sent = (state: SetAside, model: string): ReadonlyArray<Medium> => {
  const words = state.models.get(model)?.words
  return words === undefined
    ? state.media
    : state.media.filter(({ message, part }) => words.get(message)?.has(part) !== true)
}

/** The window of a model: that of the session, with words in the place of what was set aside (A2). */
export const windowFor = (
  state: SetAside,
  model: string,
  window: ReadonlyArray<Prompt.Message>
): ReadonlyArray<Prompt.Message> => {
  const own = state.models.get(model)
  if (own === undefined || own.words.size === 0) return window
  const shown = (own.window ??= [])
  // The last message may have been shown anew since the window was asked for.
  for (let index = Math.max(0, shown.length - 1); index < window.length; index++) {
    const words = own.words.get(index)
    if (words === undefined) shown[index] = window[index]!
    else shown[index] ??= withWords(window[index]!, words)
  }
  return shown
}

const withWords = (message: Prompt.Message, words: ReadonlyMap<number, string>): Prompt.Message =>
  message.role !== "user"
    ? message
    : Prompt.userMessage({
        content: message.content.map((part, index) => {
          const text = words.get(index)
          return text === undefined ? part : Prompt.textPart({ text })
        }),
        options: message.options
      })

const hasWords = (state: SetAside, model: string, from: number): boolean =>
  [...(state.models.get(model)?.words.keys() ?? [])].some((message) => message >= from)

const ofModel = (state: SetAside, model: string): OfModel => {
  const known = state.models.get(model)
  if (known !== undefined) return known
  const made: OfModel = { answered: 0, words: new Map(), window: undefined }
  state.models.set(model, made)
  return made
}

const kindOf = (mediaType: string): Exclude<Kind, "any"> | "file" => {
  const [type] = mediaType.toLowerCase().split("/")
  return type === "image" || type === "audio" || type === "video" ? type : "file"
}

const labels = { image: "image", audio: "recording", video: "video", file: "file" }

const wordsFor = ({ fileName, mediaType }: Medium, by: "provider" | "wire", reason: string): string => {
  const name = fileName === undefined ? "" : ` ${JSON.stringify(fileName)}`
  const why = by === "wire" ? "it cannot be sent to the model" : "the model's provider refused it"
  return `[${labels[kindOf(mediaType)]}${name} left out: ${why}: ${reason}]`
}
