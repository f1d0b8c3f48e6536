/**
 * The built-in tools for changing files of one folder: `write_file` and `edit_file`.
 *
 * Owns: what they are called, take and answer. Does not own: where a file may be (`WorkspacePath`).
 *
 * - E1. Nothing outside the root is written, and nothing that steers the runtime or git (`WorkspacePath.place`).
 * - E2. A file is replaced whole or not at all: what is written lies beside it and takes its place in one step, with its mode.
 *   A link that took the file's place meanwhile is replaced, never followed.
 * - E4. No change is lost: writers of one file take turns in this process (`FileLocks`), and a file takes the place only of the
 *   version it was made from. An edit of a file that changed meanwhile is made again from the new version.
 *   What remains: another process that writes between the last look and the rename, a few milliseconds, loses its change.
 * - E5. A file keeps its line ends and its byte order mark (`TextEdit`), which the model does not see.
 * - E3. Both run once: a human may have changed the file since, and a second run would take that away unseen. Calls that
 *   change the workspace run one after the other, in the order in which the model made them.
 */
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as OffThread from "../offthread/OffThread.ts"
import { FileLocks } from "./FileLocks.ts"
import type * as WriteTask from "./WriteTask.ts"
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
  created: Schema.Boolean.annotate({ description: "False when a file of that name was replaced" }),
  lineEnds: Schema.optionalKey(
    Schema.Literal("crlf").annotate({ description: "The file's CRLF line ends were kept: each line end is CRLF" })
  )
})

const content = (description: string) => Schema.String.check(Schema.isMaxLength(1024 * 1024)).annotate({ description })

/** Writes a whole file. */
export const WriteFile = Tool.make("write_file", {
  description:
    "Write a text file of the workspace, whole: it is made, with the folders it needs, or replaced. Paths are relative to " +
    "the workspace root. A file with CRLF line ends or a byte order mark keeps them when it is replaced. " +
    "To change a part of a file use edit_file.",
  parameters: Schema.Struct({
    path: Schema.String,
    content: content("The whole text of the file, at most 1 MiB."),
    version: Schema.optionalKey(
      Schema.String.annotate({
        description: "The version that read_files gave: the file is replaced only if it is that version still."
      })
    ),
    exact: Schema.optionalKey(
      Schema.Boolean.annotate({
        description: "True writes the text as it is, with other line ends than the file had; default false."
      })
    )
  }),
  success: Written,
  failure: Schema.Union([WorkspacePath.PathRefused, EditRefused, NotWritten, OffThread.WorkStopped]),
  failureMode: "return"
})
  .annotate(ToolPolicy.Effects, "once") // E3
  .annotate(ToolPolicy.Exclusive, exclusive)

/** Replaces a text in a file. */
export const EditFile = Tool.make("edit_file", {
  description:
    "Replace one text in a text file of the workspace by another. `old` must be in the file exactly once, to the last " +
    "space, as read_files shows it: read the file first, and give as many lines around the place as make it unique. " +
    "Line ends are those of the file: LF in `old` and `new` stands for CRLF too.",
  parameters: Schema.Struct({
    path: Schema.String,
    old: content("The text to replace.").check(Schema.isNonEmpty()),
    new: content("The text to put there; empty to take it out.")
  }),
  success: Written,
  failure: Schema.Union([WorkspacePath.PathRefused, EditRefused, NotWritten, OffThread.WorkStopped]),
  failureMode: "return"
})
  .annotate(ToolPolicy.Effects, "once") // E3
  .annotate(ToolPolicy.Exclusive, exclusive)

export const toolkit = Toolkit.make(WriteFile, EditFile)

const task = {
  edit: OffThread.task<typeof WriteTask.edit>(import.meta.url, "./WriteTask", "edit"),
  replace: OffThread.task<typeof WriteTask.replace>(import.meta.url, "./WriteTask", "replace"),
  version: OffThread.task<typeof WriteTask.version>(import.meta.url, "./WriteTask", "version")
}

/** The file is not the version any more that the new one was made from. */
class FileChanged extends Data.TaggedError("FileChanged") {}

type Refusal = WorkspacePath.PathRefused | EditRefused | NotWritten | OffThread.WorkStopped

const make = Effect.fnUntraced(function* (root: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const workspace = yield* WorkspacePath.make(root)

  /** Puts bytes in a file's place (E2), if it is that version still (E4); `undefined`: nothing is there. */
  const put = Effect.fnUntraced(
    function* (place: WorkspacePath.Place, bytes: Uint8Array, version: string | undefined) {
      const folder = paths.dirname(place.real)
      if (!place.exists) yield* fs.makeDirectory(folder, { recursive: true })
      yield* Effect.scoped(
        Effect.gen(function* () {
          // Made anew beside the file, under a name nobody has; gone with the scope unless it was renamed.
          const draft = yield* fs.makeTempFileScoped({ directory: folder, prefix: ".draft-" })
          yield* fs.chmod(draft, place.mode ?? 0o644)
          const file = yield* fs.open(draft, { flag: "r+" })
          yield* file.writeAll(bytes)
          yield* file.sync
          if ((yield* OffThread.run(task.version, place.real)) !== version) return yield* new FileChanged()
          yield* fs.rename(draft, place.real)
        })
      )
      return { path: place.path, bytes: bytes.length, created: !place.exists }
    },
    (writing, place) =>
      Effect.catchTag(writing, "PlatformError", ({ reason }) =>
        Effect.fail(
          new NotWritten({ path: place.path, message: `${place.path} could not be written (${reason._tag}).` })
        )
      )
  )

  /** Changes a file under its lock, anew while it changes meanwhile (E4). */
  const change = <A>(path: string, make: (place: WorkspacePath.Place) => Effect.Effect<A, Refusal | FileChanged>) =>
    Effect.gen(function* () {
      const locks = yield* FileLocks
      const { real } = yield* workspace.place(path)
      // Found again under the lock: what was there may be another file now.
      return yield* locks
        .withLock(real)(Effect.flatMap(workspace.place(path), make))
        .pipe(
          Effect.retry({ times: 2, while: (error) => error instanceof FileChanged }),
          Effect.catchTag("FileChanged", () => Effect.fail(new EditRefused({ path, message: overtaken })))
        )
    })

  return toolkit.of({
    write_file: Effect.fn("Workspace.writeFile")(function* ({ content, exact, path, version }) {
      return yield* change(path, (place) =>
        Effect.gen(function* () {
          const asked = { real: place.real, content, exact: exact ?? false, expected: version }
          const made = yield* OffThread.run(task.replace, asked)
          if ("refused" in made) return yield* new EditRefused({ path: place.path, message: made.refused })
          const written = yield* put(place, made.bytes, made.version)
          return made.isCrlf ? { ...written, lineEnds: "crlf" as const } : written
        })
      )
    }),
    edit_file: Effect.fn("Workspace.editFile")(function* (params) {
      return yield* change(params.path, (place) =>
        Effect.gen(function* () {
          if (!place.exists) return yield* WorkspacePath.refuse(params.path, "missing")
          const made = yield* OffThread.run(task.edit, { real: place.real, old: params.old, new: params.new })
          if (made === "unreadable") return yield* WorkspacePath.refuse(params.path, "unreadable")
          if ("refused" in made) return yield* new EditRefused({ path: place.path, message: made.refused })
          return yield* put(place, made.bytes, made.version)
        })
      )
    })
  })
})

/** The handlers of `toolkit`, confined to `root`. */
export const layer = (options: { readonly root: string }) => toolkit.toLayer(make(options.root))

const overtaken = "Something else writes this file at the same time, again and again. Read it again, and try later."
