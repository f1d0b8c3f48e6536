import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, layer } from "@effect/vitest"
import * as WorkspacePath from "@turnstep/runtime/tools/WorkspacePath"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Folder from "../../fixtures/Folder.ts"

/** `base/root` is the workspace; everything beside it is outside and says SECRET. */
const scene = Effect.gen(function* () {
  const files = yield* FileSystem.FileSystem
  const base = yield* Folder.make({
    "root/a.txt": "inside",
    "root/sub/b.txt": "inside",
    "root/..dots.txt": "inside",
    "root/.turnstep/token": "SECRET",
    "root-evil/c.txt": "SECRET",
    "outside/d.txt": "SECRET"
  })
  const root = path.join(base, "root")
  yield* files.symlink(path.join(root, "sub"), path.join(root, "link-in"))
  yield* files.symlink("../a.txt", path.join(root, "sub/link-up"))
  yield* files.symlink(path.join(base, "outside"), path.join(root, "link-out"))
  yield* files.symlink("../outside/d.txt", path.join(root, "file-out"))
  yield* files.symlink(path.join(base, "root-evil"), path.join(root, "link-twin"))
  yield* files.symlink("link-out", path.join(root, "link-chain"))
  yield* files.symlink("/", path.join(root, "link-slash"))
  yield* files.symlink("nowhere", path.join(root, "link-dangling"))
  yield* files.symlink("link-loop", path.join(root, "link-loop"))
  yield* files.symlink(".turnstep/token", path.join(root, "innocent"))
  yield* files.symlink(root, path.join(base, "root-by-link"))
  return { base, root, workspace: yield* WorkspacePath.make(root) }
})

class Scene extends Context.Service<Scene, Effect.Success<typeof scene>>()("test/Scene") {}

/** Made once: the tests only look at it. */
const sceneLayer = Layer.effect(Scene, scene).pipe(Layer.provideMerge(NodeServices.layer))

const reason = (workspace: WorkspacePath.WorkspacePath, asked: string) =>
  Effect.match(workspace.locate(asked), { onFailure: (refused) => refused.reason, onSuccess: () => "given" as const })

layer(sceneLayer, { excludeTestServices: true })("WorkspacePath", (it) => {
  it.effect("gives out paths inside, by every harmless spelling", () =>
    Effect.gen(function* () {
      const { root, workspace } = yield* Scene
      const real = (asked: string) =>
        Effect.map(workspace.locate(asked), (located) => path.relative(root, located.real))
      assert.strictEqual(yield* real("a.txt"), "a.txt")
      assert.strictEqual(yield* real("./sub/../a.txt"), "a.txt")
      assert.strictEqual(yield* real("..dots.txt"), "..dots.txt")
      assert.strictEqual(yield* real(path.join(root, "sub/b.txt")), "sub/b.txt")
      assert.strictEqual(yield* real("."), "")
      assert.strictEqual(yield* real(""), "")
    })
  )

  it.effect("follows a link whose target is inside and keeps the name it was asked by", () =>
    Effect.gen(function* () {
      const { root, workspace } = yield* Scene
      const located = yield* workspace.file("link-in/b.txt")
      assert.deepStrictEqual(located, {
        path: "link-in/b.txt",
        real: path.join(root, "sub/b.txt"),
        kind: "File",
        size: 6
      })
      assert.strictEqual((yield* workspace.file("sub/link-up")).real, path.join(root, "a.txt"))
    })
  )

  it.effect("refuses every way out", () =>
    Effect.gen(function* () {
      const { base, workspace } = yield* Scene
      const ways = [
        "..",
        "../outside/d.txt",
        "sub/../../outside/d.txt",
        "../root-evil/c.txt",
        path.join(base, "outside/d.txt"),
        path.join(base, "root-evil"),
        `${path.join(base, "root")}-evil/c.txt`,
        "/etc/hostname",
        "link-out",
        "link-out/d.txt",
        "file-out",
        "link-twin/c.txt",
        "link-chain/d.txt",
        "link-slash",
        "link-slash/etc/hostname"
      ]
      for (const way of ways) assert.strictEqual(yield* reason(workspace, way), "outside", way)
    })
  )

  it.effect("tells apart what is malformed, missing, unreadable and private", () =>
    Effect.gen(function* () {
      const { workspace } = yield* Scene
      assert.strictEqual(yield* reason(workspace, "a.txt\0.png"), "malformed")
      assert.strictEqual(yield* reason(workspace, "x/".repeat(3000)), "malformed")
      assert.strictEqual(yield* reason(workspace, "nothing.txt"), "missing")
      assert.strictEqual(yield* reason(workspace, "link-dangling"), "missing")
      assert.strictEqual(yield* reason(workspace, "link-loop"), "unreadable")
      assert.strictEqual(yield* reason(workspace, "a.txt/deeper"), "unreadable")
      for (const name of [".turnstep", ".turnstep/token", ".TurnStep/token", "sub/../.turnstep/none", "innocent"]) {
        assert.strictEqual(yield* reason(workspace, name), "private", name)
      }
      assert.strictEqual((yield* Effect.flip(workspace.file("sub"))).reason, "not-a-file")
    })
  )

  it.effect("never tells the root in a refusal", () =>
    Effect.gen(function* () {
      const { root, workspace } = yield* Scene
      for (const asked of ["../x", "file-out", "nothing.txt", "a.txt\0", ".turnstep", "link-loop"]) {
        const refused = yield* Effect.flip(workspace.locate(asked))
        assert.notInclude(JSON.stringify(yield* Schema.encodeEffect(WorkspacePath.PathRefused)(refused)), root)
        assert.include(refused.message, "Path: ")
      }
    })
  )

  it.effect("takes absolute paths by either name of a root that is reached through a link", () =>
    Effect.gen(function* () {
      const { base, root } = yield* Scene
      const workspace = yield* WorkspacePath.make(path.join(base, "root-by-link"))
      for (const asked of ["a.txt", path.join(base, "root-by-link/a.txt"), path.join(root, "a.txt")]) {
        assert.deepInclude(yield* workspace.locate(asked), { path: "a.txt", real: path.join(root, "a.txt") })
      }
    })
  )

  it.effect("does not open on a root that is missing or no folder", () =>
    Effect.gen(function* () {
      const { base } = yield* Scene
      for (const root of [path.join(base, "nowhere"), path.join(base, "root/a.txt")]) {
        assert.strictEqual((yield* Effect.flip(WorkspacePath.make(root)))._tag, "WorkspaceMissing")
      }
    })
  )

  const names = ["..", ".", "", "sub", "a.txt", "b.txt", "c.txt", "d.txt", "root", "root-evil", "outside", "link-in"]
  const links = [
    "link-out",
    "link-twin",
    "link-chain",
    "link-slash",
    "file-out",
    "sub/link-up",
    "..dots.txt",
    "\0",
    "~"
  ]
  const Segments = Schema.Array(Schema.Literals([...names, ...links])).check(Schema.isMaxLength(7))
  const Prefix = Schema.Literals(["", "/", "root/", "root-evil/", "outside/"])

  it.effect.prop(
    "gives out exactly what really lies inside, for any path",
    { segments: Segments, prefix: Prefix, isAbsolute: Schema.Boolean, noise: Schema.String, isNoise: Schema.Boolean },
    ({ segments, prefix, isAbsolute, noise, isNoise }) =>
      Effect.gen(function* () {
        const { base, root, workspace } = yield* Scene
        const asked = isNoise ? noise : (isAbsolute ? `${base}/${prefix}` : "") + segments.join("/")
        const given = yield* Effect.option(workspace.locate(asked))
        const truth = realInside(root, asked)
        assert.strictEqual(given._tag === "Some" ? given.value.real : undefined, truth, JSON.stringify(asked))
      }),
    { arbitrary: { runs: 400 } }
  )

  it.effect("writes nothing into what git takes for a repository, whatever its name, and makes none", () =>
    Effect.gen(function* () {
      const root = yield* Folder.make({
        "store/HEAD": "ref: refs/heads/main",
        "store/objects/aa": "",
        "store/refs/heads/main": "",
        "store/hooks/pre-commit.sample": "",
        "linked/HEAD": "ref: refs/heads/main",
        "begun/HEAD": "ref: refs/heads/main",
        "begun/objects/aa": "",
        "model/objects/lamp.ts": "",
        "model/refs/index.ts": ""
      })
      const workspace = yield* WorkspacePath.make(root)
      const written = (asked: string) =>
        Effect.match(workspace.place(asked), { onFailure: ({ reason }) => reason, onSuccess: () => "given" as const })
      for (const name of [
        "store/hooks/pre-commit",
        "store/config",
        "store/new/deep/file",
        "linked/commondir",
        "begun/refs/heads/main",
        "model/HEAD"
      ])
        assert.strictEqual(yield* written(name), "protected", name)
      for (const name of ["begun/config", "model/objects/chair.ts", "linked/notes", "HEAD", "refs/x"])
        assert.strictEqual(yield* written(name), "given", name)
    })
  )
})

/** Node's own answer to where a path leads, undefined unless that is inside. */
const realInside = (root: string, asked: string): string | undefined => {
  // A NUL is refused wherever it stands, also in a segment that `..` would take back.
  if (asked.includes("\0")) return undefined
  try {
    const lexical = path.resolve(root, asked)
    const real = fs.realpathSync(lexical)
    const isInside = (where: string) => where === root || where.startsWith(root.endsWith("/") ? root : `${root}/`)
    return isInside(lexical) && isInside(real) ? real : undefined
  } catch {
    return undefined
  }
}
