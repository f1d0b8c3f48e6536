/**
 * The token of a server: who holds it may do everything.
 *
 * Owns: making it at the first start and reading it later. Does not own: comparing it (`http/Access`).
 *
 * - T1. 256 random bits, in a file only its owner can read, in a folder only its owner can enter.
 * - T2. It is written whole or not at all: a reader never sees half of one.
 * - T3. It is a regular file: a link is not followed, and a pipe is not waited for.
 */
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"

/** There is no token yet: no server was started with this folder. */
export class TokenMissing extends Schema.TaggedError<TokenMissing>()("TokenMissing", { file: Schema.String }) {
  override get message() {
    return `There is no token in ${this.file}.`
  }
}

/** The token cannot be read from its file, or written to it. */
export class TokenUnusable extends Schema.TaggedError<TokenUnusable>()("TokenUnusable", {
  file: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return `The token in ${this.file} cannot be used: ${this.problem} Or choose another folder with --data.`
  }
}

/** The file of the token of a data folder. */
export const fileIn = (data: string): Effect.Effect<string, never, Path.Path> =>
  Effect.map(Path.Path, (path) => path.join(path.resolve(data), "token"))

/** Reads the token of a data folder; fails when there is none. */
export const read = Effect.fn("Token.read")(function* (data: string) {
  const fs = yield* FileSystem.FileSystem
  const file = yield* fileIn(data)
  const text = yield* Effect.andThen(checkKind(file), fs.readFileString(file)).pipe(
    Effect.catchTag("PlatformError", ({ reason }) =>
      Effect.fail(reason._tag === "NotFound" ? new TokenMissing({ file }) : unusable(file, problemOf(reason._tag)))
    )
  )
  const token = text.trim()
  if (!/^[\x21-\x7e]{32,}$/.test(token)) {
    return yield* unusable(file, "it is shorter than 32 characters or has others. Delete the file to get a new one.")
  }
  return Redacted.make(token)
})

/** The token of a data folder, made when there is none (T1). */
export const ensure = Effect.fn("Token.ensure")(function* (data: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const file = yield* fileIn(data)
  yield* Effect.gen(function* () {
    const folder = path.dirname(file)
    if (!(yield* fs.exists(folder))) yield* fs.makeDirectory(folder, { recursive: true, mode: 0o700 })
    if (yield* isThere(file)) return yield* Effect.andThen(checkKind(file), fs.chmod(file, 0o600))
    const random = yield* SecureRandom.SecureRandom
    const draft = `${file}.${yield* random.uuidV7()}`
    yield* fs.writeFileString(draft, `${Base64Url.encode(yield* random.randomBytes(32))}\n`, {
      flag: "wx",
      mode: 0o600
    })
    // A link, unlike a rename, does not replace the token that another process made meanwhile (T2).
    yield* Effect.catch(fs.link(draft, file), () =>
      Effect.flatMap(fs.exists(file), (isThere) => (isThere ? Effect.void : fs.copyFile(draft, file)))
    )
    yield* fs.remove(draft)
  }).pipe(Effect.catchTag("PlatformError", ({ reason }) => Effect.fail(unusable(file, problemOf(reason._tag)))))
  return yield* read(data)
})

/** Whether something lies there, be it a link that leads nowhere. */
const isThere = (file: string) =>
  FileSystem.FileSystem.use((fs) => fs.lstat(file)).pipe(
    Effect.as(true),
    Effect.catchTag("PlatformError", (error) =>
      error.reason._tag === "NotFound" ? Effect.succeed(false) : Effect.fail(error)
    )
  )

/** T3 */
const checkKind = Effect.fnUntraced(function* (file: string) {
  const { type } = yield* FileSystem.FileSystem.use((fs) => fs.lstat(file))
  if (type === "SymbolicLink") {
    return yield* unusable(file, "it is a link. Remove it; TURNSTEP_TOKEN takes a token from elsewhere.")
  }
  if (type !== "File") return yield* unusable(file, "something else is in its place. Move that away.")
})

const problemOf = (reason: string): string => {
  if (reason === "PermissionDenied") return "this user may not use it. Give it to the user of the server."
  return reason === "BadResource" || reason === "AlreadyExists"
    ? "something else is in its place. Move that away."
    : `${reason}. Check the disk.`
}

const unusable = (file: string, problem: string) => new TokenUnusable({ file, problem })
