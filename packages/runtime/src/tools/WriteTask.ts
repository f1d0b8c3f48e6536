/**
 * The work of `write_file` and `edit_file` on the texts, in a task process with blocking calls. It reads and never writes.
 */
import { lstatSync } from "node:fs"
import * as TextEdit from "./TextEdit.ts"
import * as TextFile from "./TextFile.ts"

/** A new content of a file and the version it was made from (`undefined`: no file), or why there is none, for the model. */
export type Made =
  | { readonly bytes: Uint8Array; readonly version: string | undefined; readonly isCrlf: boolean }
  | { readonly refused: string }

export interface EditInput {
  /** Absolute and free of links. */
  readonly real: string
  readonly old: string
  readonly new: string
}

/** Replaces a text in a file's text. */
export const edit = (input: EditInput): Made | "unreadable" => {
  const bytes = contentOf(input.real)
  if (bytes === "large") return { refused: "This file is too large to be edited." }
  if (typeof bytes !== "object") return "unreadable"
  const text = TextFile.decodeExact(bytes)
  if (text === undefined) return { refused: "This file is not text in UTF-8." }
  const changed = TextEdit.replace(text, input.old, input.new)
  if ("refused" in changed) return changed
  return { bytes: encoder.encode(changed.text), version: TextFile.versionOf(bytes), isCrlf: false }
}

export interface ReplaceInput {
  readonly real: string
  readonly content: string
  /** Whether line ends and byte order mark are written as given. */
  readonly exact: boolean
  /** The version the file must have. */
  readonly expected: string | undefined
}

/** Makes a whole content, with the line ends and the byte order mark of the file it replaces. */
export const replace = ({ content, exact, expected, real }: ReplaceInput): Made => {
  if (!content.isWellFormed()) return { refused: "The content must be whole Unicode characters." }
  const current = version(real)
  if (expected !== undefined && expected !== current) {
    return { refused: `The file is not version ${expected} any more. Read it again, and write on what is there now.` }
  }
  const old = contentOf(real)
  const text = typeof old === "object" && !exact ? TextFile.decodeExact(old) : undefined
  const isMarked = text !== undefined && text.startsWith(TextEdit.mark) && !content.startsWith(TextEdit.mark)
  const isCrlf = text !== undefined && !content.includes("\r\n") && TextEdit.lineEndOf(text) === "\r\n"
  const whole = (isMarked ? TextEdit.mark : "") + (isCrlf ? content.replaceAll("\n", "\r\n") : content)
  return { bytes: encoder.encode(whole), version: current, isCrlf }
}

/** The version of a file; `undefined` when there is none. A file too large to be read is known by its size and times. */
export const version = (real: string): string | undefined => {
  const bytes = contentOf(real)
  if (typeof bytes === "object") return TextFile.versionOf(bytes)
  if (bytes !== "large") return bytes
  const { ctimeNs, ino, size } = lstatSync(real, { bigint: true })
  return `${ino}-${size}-${ctimeNs}`
}

/** The bytes of a file, or in a word why there are none. */
const contentOf = (real: string): Uint8Array | "large" | "unreadable" | undefined => {
  try {
    return TextFile.bytesOf(real)
  } catch (cause) {
    return cause instanceof Error && "code" in cause && cause.code === "ENOENT" ? undefined : "unreadable"
  }
}

const encoder = new TextEncoder()
