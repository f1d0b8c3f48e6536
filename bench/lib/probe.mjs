// What a measurement costs outside the runtime's process: the database's log, its size, CPU of its processes.
import { readdirSync, readFileSync } from "node:fs"

/** Milliseconds per clock tick of /proc. */
const tick = 10

/** Figures of a database before and after; `undefined` fields are those the machine does not tell. */
export const database = async (url, serverPid) => {
  const { Client } = await import("pg") // not at the start: a cold start is measured too
  const client = new Client({ connectionString: url })
  await client.connect()
  return {
    read: async () => {
      const { rows } = await client.query(
        `select (pg_current_wal_insert_lsn() - '0/0')::float8 as wal,
                pg_database_size(current_database())::float8 as size,
                pg_snapshot_xmax(pg_current_snapshot())::text::float8 as transactions`
      )
      return { ...rows[0], cpu: serverPid === undefined ? undefined : cpuOfTree(serverPid) }
    },
    end: () => client.end()
  }
}

/** The costs of `steps` steps between two readings. `writes`: transactions that wrote, as PostgreSQL numbers them. */
export const perStep = (before, after, steps) => ({
  walPerStep: (after.wal - before.wal) / steps,
  sizePerStep: (after.size - before.size) / steps,
  writesPerStep: (after.transactions - before.transactions) / steps,
  pgCpuPerStep: before.cpu === undefined ? null : (after.cpu - before.cpu) / steps
})

/** CPU milliseconds of a process; `undefined` where there is no /proc. */
export const cpuOf = (pid) => statOf(pid)?.own

const cpuOfTree = (root) => {
  let total = statOf(root)?.withReaped
  if (total === undefined) return undefined
  for (const pid of readdirSync("/proc")) {
    const stat = /^\d+$/.test(pid) ? statOf(pid) : undefined
    if (stat?.parent === root) total += stat.own
  }
  return total
}

const statOf = (pid) => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1")
    const fields = text
      .slice(text.lastIndexOf(")") + 2)
      .split(" ")
      .map(Number)
    const own = (fields[11] + fields[12]) * tick
    return { parent: fields[1], own, withReaped: own + (fields[13] + fields[14]) * tick }
  } catch {
    return undefined
  }
}
