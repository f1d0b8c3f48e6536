/**
 * The built-in tools for changing files of one folder: `write_file` and `edit_file`.
 *
 * Owns: what they are called, take and answer. Does not own: where a file may be (`WorkspacePath`).
 *
 * - E1. Nothing outside the root is written, and nothing that steers the runtime or git (`WorkspacePath.place`).
 * - E2. A file is replaced whole or not at all: what is written lies beside it and takes its place in one step, with its mode.
 *   A link that took the file's place meanwhile is replaced, never followed.
 * - E3. Both run once: a human may have changed the file since, and a second run would take that away unseen. Calls that
 *   change the workspace run one after the other, in the order in which the model made them.
 */
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TextFile from "./TextFile.ts"
import * as WorkspacePath from "./WorkspacePath.ts"

/** The edit does not fit the file; `message` is written for the model. */
export class EditRefused extends Schema.TaggedError<EditRefused>()("EditRefused", {
  path: Schema.String,
  message: Schema.String
}) {}

/** The disk did not take the file. */
export class NotWritten extends Schema.TaggedError<NotWritten>()("NotWritten", {
  path: Schema.String,
  message: Schema.String
}) {}

/** The key of calls that change the workspace (E3). */
export const exclusive = "workspace"

/** What changed. */
export const Written = Schema.Struct({
  path: Schema.String,
  bytes: Schema.Int,
  created: Schema.Boolean.annotate({ description: "False when a file of that name was replaced" })
})

const content = (description: string) => Schema.String.check(Schema.isMaxLength(1024 * 1024)).annotate({ description })

/** Writes a whole file. */
export const WriteFile = Tool.make("write_file", {
  description:
    "Write a text file of the workspace, whole: it is made, with the folders it needs, or replaced. Paths are relative to " +
    "the workspace root. To change a part of a file use edit_file.",
  parameters: Schema.Struct({
    path: Schema.String,
    content: content("The whole text of the file, at most 1 MiB.")
  }),
  success: Written,
  failure: Schema.Union([WorkspacePath.PathRefused, NotWritten]),
  failureMode: "return"
})
  .annotate(ToolPolicy.Effects, "once") // E3
  .annotate(ToolPolicy.Exclusive, exclusive)

/** Replaces a text in a file. */
export const EditFile = Tool.make("edit_file", {
  description:
    "Replace one text in a text file of the workspace by another. `old` must be in the file exactly once, to the last " +
    "space and line end: read the file first, and give as many lines around the place as make it unique.",
  parameters: Schema.Struct({
    path: Schema.String,
    old: content("The text to replace.").check(Schema.isNonEmpty()),
    new: content("The text to put there; empty to take it out.")
  }),
  success: Written,
  failure: Schema.Union([WorkspacePath.PathRefused, EditRefused, NotWritten]),
  failureMode: "return"
})
  .annotate(ToolPolicy.Effects, "once") // E3
  .annotate(ToolPolicy.Exclusive, exclusive)

export const toolkit = Toolkit.make(WriteFile, EditFile)

const make = Effect.fnUntraced(function* (root: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const workspace = yield* WorkspacePath.make(root)

  /** Puts a text in a file's place (E2). */
  const put = Effect.fnUntraced(
    function* (place: WorkspacePath.Place, text: string) {
      const folder = paths.dirname(place.real)
      if (!place.exists) yield* fs.makeDirectory(folder, { recursive: true })
      yield* Effect.scoped(
        Effect.gen(function* () {
          // Made anew beside the file, under a name nobody has; gone with the scope unless it was renamed.
          const draft = yield* fs.makeTempFileScoped({ directory: folder, prefix: ".draft-" })
          if (place.mode !== undefined) yield* fs.chmod(draft, place.mode)
          else yield* fs.chmod(draft, 0o644)
          const file = yield* fs.open(draft, { flag: "r+" })
          yield* file.writeAll(encoder.encode(text))
          yield* file.sync
          yield* fs.rename(draft, place.real)
        })
      )
      return { path: place.path, bytes: encoder.encode(text).length, created: !place.exists }
    },
    (writing, place) =>
      Effect.catchTag(writing, "PlatformError", ({ reason }) =>
        Effect.fail(
          new NotWritten({ path: place.path, message: `${place.path} could not be written (${reason._tag}).` })
        )
      )
  )

  return toolkit.of({
    write_file: Effect.fn("Workspace.writeFile")(function* ({ content, path }) {
      return yield* put(yield* workspace.place(path), content)
    }),
    edit_file: Effect.fn("Workspace.editFile")(function* (params) {
      const place = yield* workspace.place(params.path)
      const refuse = (message: string) => new EditRefused({ path: place.path, message })
      if (!place.exists) return yield* WorkspacePath.refuse(params.path, "missing")
      if (place.size > TextFile.maxFileBytes) return yield* refuse("This file is too large to be edited.")
      const bytes = yield* Effect.mapError(fs.readFile(place.real), () =>
        WorkspacePath.refuse(params.path, "unreadable")
      )
      const text = TextFile.decodeExact(bytes)
      if (text === undefined) return yield* refuse("This file is not text in UTF-8.")
      const at = text.indexOf(params.old)
      if (at < 0) return yield* refuse("`old` is not in the file. Read the file again: it must fit to the last space.")
      if (text.includes(params.old, at + 1)) {
        return yield* refuse("`old` is in the file more than once. Give more of the lines around the place.")
      }
      return yield* put(place, text.slice(0, at) + params.new + text.slice(at + params.old.length))
    })
  })
})

/** The handlers of `toolkit`, confined to `root`. */
export const layer = (options: { readonly root: string }) => toolkit.toLayer(make(options.root))

const encoder = new TextEncoder()
