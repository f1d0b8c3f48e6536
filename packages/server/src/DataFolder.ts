/**
 * The folder for everything a server writes: its token, its embedded database, its spills.
 *
 * Owns: whether the folder can be trusted, and how it is made. Does not own: what the token (`Token`) and the database
 * (`Database`) keep there.
 *
 * - F1. The folder belongs to this user, closed to all others (0700), and holds no link in the place of a file of ours.
 * - F2. A folder that git tracks is refused: its token is as public as the repository.
 * - F3. A folder that already holds something was made here, or it is adopted by a human: a database that came with a
 *   repository or a copy holds messages of somebody else, and they would run with this user's rights. A folder is known by its
 *   inode and the time of its creation, which no copy shares.
 * - F4. An adopted folder gets a new token: whoever made the folder knows the old one.
 * - F5. Git runs nothing while it is asked: the folder's author may have written its configuration, which names programs, also
 *   for fetching an object that is missing.
 */
import * as PrivateFolder from "@turnstep/runtime/PrivateFolder"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"

/** The folder cannot be made or trusted. */
export class DataFolderUnusable extends Schema.TaggedError<DataFolderUnusable>()("DataFolderUnusable", {
  folder: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return `The data folder ${this.folder} cannot be used: ${this.problem} Or choose another folder with --data.`
  }
}

/** The folder was made somewhere else, and nobody has said that it may be used here. */
export class DataFolderForeign extends Schema.TaggedError<DataFolderForeign>()("DataFolderForeign", {
  folder: Schema.String,
  backlog: Schema.String
}) {
  override get message() {
    return (
      `The data folder ${this.folder} was not made here: it was copied, or it came with a repository. ${this.backlog} ` +
      "Start with --adopt if it is yours (its token is then replaced), or choose another folder with --data."
    )
  }
}

/** A folder that was looked at. */
export interface DataFolder {
  /** Absolute. */
  readonly path: string
  /** Whether nothing of a server lies in it yet, it was made here, or it came from somewhere else (F3). */
  readonly origin: "new" | "own" | "foreign"
}

/** Looks at the folder and changes nothing; fails with what would keep a server from using it. */
export const inspect = (data: string): Effect.Effect<DataFolder, DataFolderUnusable> =>
  judged(data, (folder) => originOf(folder))

/** Makes the folder where it is missing, or closes an existing one to others, and keeps it out of git (F1, F2). */
export const open = (data: string): Effect.Effect<DataFolder, DataFolderUnusable> =>
  judged(data, (folder) => {
    const origin = originOf(folder)
    PrivateFolder.make(folder)
    fs.chmodSync(folder, 0o700)
    const ignore = path.join(folder, ".gitignore")
    if (fs.lstatSync(ignore, { throwIfNoEntry: false }) === undefined) PrivateFolder.replace(ignore, "*\n")
    if (origin === "new") sign(folder)
    return origin
  })

/** Takes over a folder that was made somewhere else (F4). */
export const adopt = (folder: DataFolder): Effect.Effect<void, DataFolderUnusable> =>
  Effect.asVoid(
    judged(folder.path, (home) => {
      fs.rmSync(path.join(home, "token"), { force: true })
      sign(home)
      return "own"
    })
  )

const judged = (data: string, look: (folder: string) => DataFolder["origin"]) => {
  const folder = path.resolve(data)
  return Effect.try({
    try: (): DataFolder => ({ path: folder, origin: look(folder) }),
    catch: (error) => new DataFolderUnusable({ folder, problem: PrivateFolder.wordsOf(error) })
  })
}

/** The names of a server's own files. Each is a file or folder, never a link. */
const ownNames = ["token", "db", "db/turnstep.lock", "db/turnstep.pid", "spills", "identity", ".gitignore"]

const originOf = (folder: string): DataFolder["origin"] => {
  const refuse = (problem: string): never => {
    throw new PrivateFolder.FolderProblem(problem)
  }
  if (PrivateFolder.isLink(folder)) refuse("it is a link. Name the folder itself.")
  const info = fs.lstatSync(folder, { throwIfNoEntry: false })
  if (info === undefined) return "new"
  const untrusted = PrivateFolder.problemOf(folder)
  if (untrusted !== undefined) refuse(untrusted)
  const uid = process.getuid?.()
  if (uid !== undefined && info.uid !== uid) refuse(`it belongs to another user. Run \`chown ${uid}\` on it.`)
  const held = ownNames.filter((name) => {
    const file = path.join(folder, name)
    if (PrivateFolder.isLink(file)) refuse(`${name} in it is a link. Remove it.`)
    return fs.existsSync(file)
  })
  if (held.every((name) => name === ".gitignore")) return "new"
  // Whoever may write there could have put it there.
  if (uid !== undefined && info.mode & 0o020) {
    refuse("the users of its group may write there. Check what lies in it, then run `chmod 700` on it.")
  }
  if (isTracked(folder)) {
    refuse("git tracks it, so its token is not secret. Run `git rm -r --cached` on it, and delete its token.")
  }
  return identityIn(folder) === identityOf(folder) ? "own" : "foreign"
}

/** What no copy of a folder shares with it (F3). */
const identityOf = (folder: string): string => {
  const { birthtimeMs, ino } = fs.statSync(folder, { bigint: true })
  return `${ino}:${birthtimeMs}`
}

const identityIn = (folder: string): string | undefined => {
  const file = path.join(folder, "identity")
  return fs.lstatSync(file, { throwIfNoEntry: false })?.isFile() === true
    ? fs.readFileSync(file, "utf8").trim()
    : undefined
}

const sign = (folder: string): void => PrivateFolder.replace(path.join(folder, "identity"), `${identityOf(folder)}\n`)

/** F5. A folder that is itself a git directory has come with a clone: git does not read its configuration. */
const harmless = ["-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit"]

/** Whether git has a file of the folder in its index (F2). Without git, or outside of a repository, nothing is tracked. */
const isTracked = (folder: string): boolean => {
  const { HOME = "", PATH = "" } = process.env
  const listed = spawnSync("git", [...harmless, "ls-files", "-z", "--cached", "--", "."], {
    cwd: folder,
    env: { HOME, PATH, GIT_OPTIONAL_LOCKS: "0", GIT_ALLOW_PROTOCOL: "none", GIT_NO_LAZY_FETCH: "1" }, // F5
    timeout: 10_000,
    maxBuffer: 64 * 1024 * 1024,
    stdio: ["ignore", "pipe", "ignore"]
  })
  return listed.stdout !== null && listed.stdout.length > 0
}
