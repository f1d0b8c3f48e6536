/**
 * Paths that steer the runtime or hold its secrets: tools of a workspace keep away from them, wherever they lie.
 *
 * Owns: which paths are protected now, and whether a path is one of them. Does not own: what a tool says about it
 * (`tools/WorkspacePath`).
 *
 * - P1. A protected path is known by its place, not by its name: by its real path and by the identity (device and inode) of what
 *   lies there. A link, a hard link, a bind mount or another spelling of it is the same place.
 * - P2. Everything below a protected folder is protected as well, by its path: a hard link or a bind mount of one file in there
 *   lies somewhere else. A file whose content is a secret is protected by itself.
 * - P3. Protection begins when its owner (a layer) opens the path and ends with the owner's scope. Every lookup resolves the
 *   paths anew: a file that was replaced is still protected.
 * - P4. Where nothing lies yet, names that differ only in case or Unicode form are the same place.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as path from "node:path"

/** What tools may do with a protected path: nothing, or read it. */
export type Access = "none" | "read"

/** A protected path as it lies on the disk now. A plain value: it may be sent to a worker thread. */
export interface Spot {
  readonly access: Access
  /** The path, and where it leads if it is a link; both with the real path of their folder. */
  readonly paths: ReadonlyArray<string>
  /** Device and inode; undefined while nothing lies there. */
  readonly id: string | undefined
}

export interface Service {
  /** Protects a path, whether something lies there or not, until the scope closes. */
  readonly protect: (path: string, access: Access) => Effect.Effect<void, never, Scope.Scope>
  /** All protected paths as they lie now (P3). */
  readonly spots: () => ReadonlyArray<Spot>
}

const make = (): Service => {
  const owners = new Set<{ readonly path: string; readonly access: Access }>()
  return {
    protect: (given, access) =>
      Effect.asVoid(
        Effect.acquireRelease(
          Effect.sync(() => {
            const owner = { path: path.resolve(given), access }
            owners.add(owner)
            return owner
          }),
          (owner) => Effect.sync(() => owners.delete(owner))
        )
      ),
    spots: () => [...owners].map(({ access, path }) => locate(path, access))
  }
}

/** The protected paths of this process. */
export const ProtectedPaths = Context.Reference<Service>("runtime/ProtectedPath", { defaultValue: make })

/** Protects a path until the scope closes: tools neither read nor write there, or only read. */
export const protect = (path: string, access: Access = "none"): Effect.Effect<void, never, Scope.Scope> =>
  Effect.flatMap(ProtectedPaths, (paths) => paths.protect(path, access))

/**
 * What tools may do with an absolute path that is free of links; undefined where it is not protected.
 * Of several answers the strictest holds.
 */
export const accessTo = (spots: ReadonlyArray<Spot>, real: string): Access | undefined => {
  if (spots.length === 0) return undefined
  const { ids, missing } = identify(real)
  let access: Access | undefined
  for (const spot of spots) {
    const isThere =
      (spot.id !== undefined && ids.has(spot.id)) ||
      spot.paths.some((place) => isBelow(place, real) || (missing && isBelow(folded(place), folded(real)))) // P4
    if (!isThere) continue
    if (spot.access === "none") return "none"
    access = "read"
  }
  return access
}

/** What a walk leaves out: it compares what it meets with these paths and identities. */
export interface Hidden {
  readonly paths: ReadonlySet<string>
  readonly ids: ReadonlySet<string>
}

/** The places of which tools tell nothing. */
export const hidden = (spots: ReadonlyArray<Spot>): Hidden => {
  const closed = spots.filter(({ access }) => access === "none")
  return {
    paths: new Set(closed.flatMap(({ paths }) => paths)),
    ids: new Set(closed.flatMap(({ id }) => (id === undefined ? [] : [id])))
  }
}

/** Device and inode of what lies at a path, which is not followed if it is a link; undefined if nothing does. */
export const idOf = (real: string): string | undefined => {
  try {
    const info = fs.lstatSync(real, { bigint: true })
    return `${info.dev}:${info.ino}`
  } catch {
    return undefined
  }
}

const locate = (given: string, access: Access): Spot => {
  const place = realPath(given)
  const named = path.join(realPath(path.dirname(given)), path.basename(given))
  return { access, paths: place === named ? [place] : [named, place], id: idOf(place) }
}

/** The real path; of what does not exist, below the real path of the nearest folder that does. */
const realPath = (given: string): string => {
  try {
    return fs.realpathSync.native(given)
  } catch {
    const folder = path.dirname(given)
    return folder === given ? given : path.join(realPath(folder), path.basename(given))
  }
}

/** The identities of a path and of every folder above it, and whether the path itself is missing (P1, P2). */
const identify = (real: string): { readonly ids: ReadonlySet<string>; readonly missing: boolean } => {
  const ids = new Set<string>()
  const own = idOf(real)
  for (let at = real; ; at = path.dirname(at)) {
    const id = at === real ? own : idOf(at)
    if (id !== undefined) ids.add(id)
    if (path.dirname(at) === at) return { ids, missing: own === undefined }
  }
}

const isBelow = (folder: string, file: string): boolean =>
  file === folder || file.startsWith(folder.endsWith(path.sep) ? folder : folder + path.sep)

const folded = (text: string): string => text.normalize("NFC").toLowerCase()
