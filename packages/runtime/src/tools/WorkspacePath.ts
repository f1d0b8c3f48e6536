/**
 * Paths that stay inside one workspace folder.
 *
 * Owns: which path strings are given out, and the words of a refusal. Does not
 * own: what is read there (`WorkspaceTree`, `TextFile`).
 *
 * - P1. A path is given out only if its *real* path, every link followed, is the
 *   root or lies below it. Twins of the root's name (`/root-evil`) are outside.
 * - P2. Nothing protected is given out (`ProtectedPath`): the database, spills, the access token, the file of MCP servers,
 *   wherever they lie and whichever path leads there. Nor is anything below a folder named `.turnstep`: it may be the
 *   data folder of another process.
 * - P3. A refusal repeats the path as it was asked for and never tells the root.
 * - P4. A write goes to a regular file or a new one, never below a `.git` folder and never to a file this runtime loads:
 *   git and the next start would run it. A folder that git takes for a repository is one of git's whatever its name (a bare
 *   one, a git directory kept elsewhere, a bind mount), and no write makes a folder into one.
 *
 * Check and use are two system calls: a process that may replace folders of the
 * workspace by links in between has more rights than these tools, and is not
 * guarded against.
 */
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Schema from "effect/Schema"
import * as ProtectedPath from "../ProtectedPath.ts"

/** The folder that should become a workspace cannot be one. */
export class WorkspaceMissing extends Schema.TaggedError<WorkspaceMissing>()("WorkspaceMissing", {
  root: Schema.String
}) {
  override get message(): string {
    return `The workspace ${this.root} is not a folder that can be read.`
  }
}

/** Why a path is not given out. */
export const RefusalReason = Schema.Literals([
  "malformed",
  "outside",
  "private",
  "protected",
  "missing",
  "unreadable",
  "not-a-file",
  "not-a-folder"
])
export type RefusalReason = typeof RefusalReason.Type

/** A path the workspace does not give out; `message` is written for the model. */
export class PathRefused extends Schema.TaggedError<PathRefused>()("PathRefused", {
  path: Schema.String,
  reason: RefusalReason,
  message: Schema.String
}) {}

/** A path that was checked (P1, P2). */
export interface Located {
  /** Relative to the root, `/`-separated, links kept by name; `.` is the root. */
  readonly path: string
  /** Absolute and free of links: the one to read from. */
  readonly real: string
  readonly kind: FileSystem.File.Type
  /** Bytes. */
  readonly size: number
}

/** A place for a file that is to be written (P4). */
export interface Place {
  readonly path: string
  /** Absolute; every folder that is there is free of links. */
  readonly real: string
  readonly exists: boolean
  /** The mode of the file that is there. */
  readonly mode: number | undefined
  /** Its bytes. */
  readonly size: number
}

export interface WorkspacePath {
  /** Finds what a model's path means, or says why it is not given out. */
  readonly locate: (path: string) => Effect.Effect<Located, PathRefused>
  /** As `locate`, for a regular file. */
  readonly file: (path: string) => Effect.Effect<Located, PathRefused>
  /** Finds where a file that a model names is to be written, whether it is there or not (P4). */
  readonly place: (path: string) => Effect.Effect<Place, PathRefused>
  /** The places of which a walk tells nothing (P2), as they lie now. */
  readonly hidden: Effect.Effect<ProtectedPath.Hidden>
}

/** The name no tool gives out (P2), in lower case: some file systems ignore case. */
export const privateName = ".turnstep"

/** A refusal with its sentence. */
export const refuse = (path: string, reason: RefusalReason): PathRefused =>
  new PathRefused({ path: quotable(path), reason, message: `${sentence[reason]} Path: ${quotable(path)}` })

/** Confines paths to `root`, which must be a folder. */
export const make = Effect.fn("WorkspacePath.make")(function* (root: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const protectedPaths = yield* ProtectedPath.ProtectedPaths
  const given = paths.resolve(root)
  const home = yield* fs.realPath(given).pipe(
    Effect.tap((real) => fs.readDirectoryEntries(real)),
    Effect.mapError(() => new WorkspaceMissing({ root }))
  )

  /** The way from `base` down to `absolute`, or undefined if it leads out. */
  const below = (base: string, absolute: string): string | undefined => {
    const way = paths.relative(base, absolute)
    return way === ".." || way.startsWith(`..${paths.sep}`) || paths.isAbsolute(way) ? undefined : way
  }

  const accessTo = (real: string) => ProtectedPath.accessTo(protectedPaths.spots(), real)

  const locate = Effect.fnUntraced(function* (path: string) {
    if (path.length > maxPathLength || path.includes("\0")) return yield* refuse(path, "malformed")
    const absolute = paths.resolve(given, path)
    // the root may itself be reached through a link: an absolute path may use either name
    const way = below(given, absolute) ?? below(home, absolute)
    if (way === undefined) return yield* refuse(path, "outside")
    if (isPrivate(way, paths.sep)) return yield* refuse(path, "private") // P2, before any look at the disk
    const real = yield* fs.realPath(paths.join(home, way)).pipe(Effect.mapError(unreachable(path)))
    const realWay = below(home, real)
    if (realWay === undefined) return yield* refuse(path, "outside") // P1
    if (isPrivate(realWay, paths.sep) || accessTo(real) === "none") return yield* refuse(path, "private") // P2, through a link
    const info = yield* fs.stat(real).pipe(Effect.mapError(unreachable(path)))
    const located: Located = {
      path: way === "" ? "." : way.split(paths.sep).join("/"),
      real,
      kind: info.type,
      size: ByteSize.toNumberUnsafe(info.size)
    }
    return located
  })

  const file = (path: string) =>
    Effect.filterOrFail(
      locate(path),
      (located) => located.kind === "File",
      () => refuse(path, "not-a-file")
    )

  const place = Effect.fnUntraced(function* (path: string) {
    const found = yield* Effect.result(locate(path))
    if (found._tag === "Success") {
      if (found.success.kind !== "File") return yield* refuse(path, "not-a-file")
      yield* checkWritable(path, found.success.real)
      const info = yield* Effect.mapError(fs.stat(found.success.real), unreachable(path))
      return {
        path: found.success.path,
        real: found.success.real,
        exists: true,
        mode: info.mode & 0o777,
        size: found.success.size
      } satisfies Place
    }
    if (found.failure.reason !== "missing") return yield* found.failure
    // A link that leads nowhere is there as well, and is not written through.
    const way = below(given, paths.resolve(given, path)) ?? below(home, paths.resolve(given, path)) ?? ""
    if (Option.isSome(yield* Effect.option(fs.readLink(paths.join(home, way)))))
      return yield* refuse(path, "not-a-file")
    const folder = paths.dirname(way)
    const name = paths.basename(way)
    const parent = yield* folderOf(path, folder)
    const real = paths.join(parent, name)
    yield* checkWritable(path, real)
    return { path: way.split(paths.sep).join("/"), real, exists: false, mode: undefined, size: 0 } satisfies Place
  })

  /** The real path of a folder, of which only the upper part may be there. */
  const folderOf = (path: string, way: string): Effect.Effect<string, PathRefused> =>
    Effect.flatMap(Effect.result(locate(way === "" ? "." : way)), (found) => {
      if (found._tag === "Success") {
        return found.success.kind === "Directory"
          ? Effect.succeed(found.success.real)
          : Effect.fail(refuse(path, "not-a-folder"))
      }
      if (found.failure.reason !== "missing" || way === "." || way === "")
        return Effect.fail(refuse(path, found.failure.reason))
      const name = paths.basename(way)
      return Effect.map(folderOf(path, paths.dirname(way)), (parent) => paths.join(parent, name))
    })

  /** P4. A place where nothing lies yet may be a protected one, too. */
  const checkWritable = Effect.fnUntraced(function* (path: string, real: string) {
    const access = accessTo(real)
    if (access === "none") return yield* refuse(path, "private")
    if (access === "read" || (yield* isOfGit(real))) return yield* refuse(path, "protected")
  })

  /** Whether git would read a file as its own: by the name of a folder, or by what lies in one once the file is written. */
  const isOfGit = Effect.fnUntraced(function* (real: string) {
    const segments = (below(home, real) ?? "").split(paths.sep)
    if (segments.some((name) => name.toLowerCase() === ".git")) return true
    for (let depth = 0; depth < segments.length; depth++) {
      const folder = paths.join(home, ...segments.slice(0, depth))
      const has = (name: string) =>
        segments[depth] === name
          ? Effect.succeed(true)
          : Effect.orElseSucceed(fs.exists(paths.join(folder, name)), () => false)
      if (!(yield* has("HEAD"))) continue
      if ((yield* has("commondir")) || ((yield* has("objects")) && (yield* has("refs")))) return true
    }
    return false
  })

  const workspace: WorkspacePath = {
    locate,
    file,
    place,
    hidden: Effect.sync(() => ProtectedPath.hidden(protectedPaths.spots()))
  }
  return workspace
})

const maxPathLength = 4096

const sentence: Record<RefusalReason, string> = {
  malformed: "This is not a usable path (too long, or it contains a NUL).",
  outside: "This path leads out of the workspace; only paths inside it can be used.",
  private: "This path belongs to the runtime itself and is not given out.",
  protected: "This path belongs to git or to the runtime; it is not written.",
  missing: "There is no such path in the workspace.",
  unreadable: "This path cannot be read.",
  "not-a-file": "This path is not a regular file.",
  "not-a-folder": "This path is not a folder."
}

const quotable = (path: string): string => (path.length > 300 ? `${path.slice(0, 300)}…` : path).replaceAll("\0", "\\0")

const isPrivate = (way: string, separator: string): boolean => way.toLowerCase().split(separator).includes(privateName)

const unreachable =
  (path: string) =>
  (error: PlatformError): PathRefused =>
    refuse(path, error.reason._tag === "NotFound" ? "missing" : "unreadable")
