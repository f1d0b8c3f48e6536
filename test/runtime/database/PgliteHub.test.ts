import { assert, describe, it } from "@effect/vitest"
import * as Frames from "@turnstep/runtime/database/PgliteFrames"
import * as PgliteHub from "@turnstep/runtime/database/PgliteHub"

const IN_TRANSACTION = 0x54

/** A hub on a session that is told what to answer: it notes each batch, as text, and follows BEGIN and its end. */
const scene = () => {
  const ran: Array<string> = []
  const sent: Array<readonly [id: number, frames: string]> = []
  const ended: Array<number> = []
  const tasks: Array<() => void> = []
  let status: number = Frames.IDLE
  let died = 0
  const answers = new Map<string, ReadonlyArray<Uint8Array>>()
  const backend = (batch: Uint8Array): Uint8Array<ArrayBuffer> => {
    const text = readable(batch)
    ran.push(text)
    if (text.includes("BEGIN")) status = IN_TRANSACTION
    if (/COMMIT|ROLLBACK/.test(text)) status = Frames.IDLE
    return Frames.concat(answers.get(text) ?? [Frames.ready(status)])
  }
  const greeting = Frames.concat([Frames.keyData(42, 7), Frames.ready(Frames.IDLE)])
  const hub = PgliteHub.make(backend, greeting, {
    send: (id, bytes) => sent.push([id, readable(bytes)]),
    end: (id) => ended.push(id),
    died: () => died++,
    defer: (task) => tasks.push(task)
  })
  const runTasks = () => {
    for (let task = tasks.shift(); task !== undefined; task = tasks.shift()) task()
  }
  const open = (...ids: ReadonlyArray<number>) => {
    for (const id of ids) {
      hub.open(id)
      hub.write(id, Frames.startup({ user: "postgres" }))
    }
    sent.length = 0
  }
  const query = (id: number, sql: string) => hub.write(id, Frames.query(sql))
  return { hub, ran, sent, ended, answers, open, query, runTasks, deaths: () => died }
}

/** Letters and text of a byte string; lengths and zeros left out. */
const readable = (bytes: Uint8Array): string =>
  Buffer.from(bytes)
    .toString("latin1")
    .replaceAll(/[^\x20-\x7e]/g, "")

const cancelRequest = (id: number): Uint8Array => {
  const packet = Buffer.alloc(16)
  packet.writeInt32BE(16, 0)
  packet.writeInt32BE(Frames.Startup.cancel, 4)
  packet.writeInt32BE(id, 8)
  return packet
}

const parse = (name: string, sql: string): Uint8Array => {
  const body = Buffer.from(`${name}\0${sql}\0\0\0`)
  const head = Buffer.from([0x50, 0, 0, 0, 0])
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

const sync = Buffer.from([0x53, 0, 0, 0, 4])

const notification = (() => {
  const body = Buffer.from("\0\0\0\u{2a}jobs\0now\0")
  const head = Buffer.from([0x41, 0, 0, 0, 0])
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
})()

describe("PgliteHub", () => {
  it("greets every connection with a key of its own, without asking the session", () => {
    const { hub, ran, sent } = scene()
    hub.open(0x41)
    hub.write(0x41, Frames.startup({ user: "postgres" }))
    assert.deepStrictEqual(sent, [[0x41, "KAZI"]])
    assert.deepStrictEqual(ran, [])
  })

  it("runs a statement in one step when the session is free", () => {
    const { ran, sent, open, query } = scene()
    open(1)
    query(1, "SELECT 1")
    assert.deepStrictEqual(ran, ["QSELECT 1"])
    assert.deepStrictEqual(sent, [[1, "ZI"]])
  })

  it("waits for the whole of a batch, however it is cut", () => {
    const { hub, ran, open } = scene()
    open(1)
    const bytes = Frames.concat([parse("", "SELECT 1"), sync])
    for (const byte of bytes.subarray(0, -1)) hub.write(1, Uint8Array.of(byte))
    assert.deepStrictEqual(ran, [])
    hub.write(1, bytes.subarray(-1))
    assert.deepStrictEqual(ran, ["PSELECT 1S"])
  })

  it("gives the session to a transaction until it ends, and then to the others in their order", () => {
    const { ran, open, query, runTasks } = scene()
    open(1, 2, 3)
    query(1, "BEGIN")
    query(3, "C1")
    query(2, "B1")
    runTasks()
    query(1, "A1")
    runTasks()
    assert.deepStrictEqual(ran, ["QBEGIN", "QA1"])
    query(1, "COMMIT")
    runTasks()
    assert.deepStrictEqual(ran, ["QBEGIN", "QA1", "QCOMMIT", "QC1", "QB1"])
  })

  it("rolls back the transaction of a connection that ends, and forgets what it had queued", () => {
    const { hub, ran, open, query, runTasks } = scene()
    open(1, 2)
    query(1, "BEGIN")
    query(2, "B1")
    query(2, "B2")
    hub.close(1)
    assert.strictEqual(ran[1], "QROLLBACK")
    hub.close(2)
    runTasks()
    assert.deepStrictEqual(ran.slice(0, 3), ["QBEGIN", "QROLLBACK", "QB1"])
    assert.notInclude(ran, "QB2")
  })

  it("ends a connection that says goodbye, and frees its prepared statements", () => {
    const { hub, ran, ended, open } = scene()
    open(1)
    hub.write(1, Frames.concat([parse("one", "SELECT 1"), parse("", "SELECT 2"), sync]))
    hub.write(1, Buffer.from([0x58, 0, 0, 0, 4]))
    assert.deepStrictEqual(ended, [1])
    assert.deepStrictEqual(ran, ["PoneSELECT 1PSELECT 2S", "CSoneS"])
  })

  it("sends notifications to everybody and the rest to who asked", () => {
    const { sent, answers, open, query } = scene()
    open(1, 2)
    answers.set("QNOTIFY", [notification, Frames.ready(Frames.IDLE)])
    query(1, "NOTIFY")
    assert.deepStrictEqual(sent, [
      [1, "ZI"],
      [1, "A*jobsnow"],
      [2, "A*jobsnow"]
    ])
  })

  it("does not let one connection's UNLISTEN silence another", () => {
    const { hub, ran, open, query } = scene()
    open(1)
    query(1, 'UNLISTEN "jobs"')
    hub.write(1, Frames.concat([parse("s", 'unlisten "jobs"'), sync]))
    assert.deepStrictEqual(ran, ['Q  LISTEN "jobs"', 'Ps  listen "jobs"S'])
  })

  it("reads what has arrived before it runs the next of those who waited", () => {
    const { hub, ran, open, query, runTasks } = scene()
    open(1, 2, 3)
    query(1, "BEGIN")
    query(2, "B1")
    query(3, "C1")
    query(1, "COMMIT")
    query(1, "A1")
    hub.close(2)
    assert.deepStrictEqual(ran, ["QBEGIN", "QCOMMIT"])
    runTasks()
    assert.deepStrictEqual(ran, ["QBEGIN", "QCOMMIT", "QC1", "QA1"])
  })

  it("cancels a statement that waits for another's transaction, and nothing else", () => {
    const { hub, ran, sent, ended, open, query, runTasks } = scene()
    open(1, 2, 3)
    query(1, "BEGIN")
    query(3, "C1")
    query(2, "B1")
    hub.open(9)
    hub.write(9, cancelRequest(2))
    assert.deepStrictEqual(ended, [9])
    assert.strictEqual(sent.at(-1)?.[0], 2)
    assert.match(sent.at(-1)?.[1] ?? "", /SERRORVERRORC57014.*ZI$/)
    query(1, "COMMIT")
    query(2, "B2")
    runTasks()
    assert.deepStrictEqual(ran, ["QBEGIN", "QCOMMIT", "QC1", "QB2"])
  })

  it("takes the session back from a transaction that is silent for two beats", () => {
    const { hub, ran, sent, ended, open, query, runTasks } = scene()
    open(1, 2)
    query(1, "BEGIN")
    query(2, "B1")
    hub.beat()
    query(1, "A1")
    hub.beat()
    assert.deepStrictEqual(ended, [])
    hub.beat()
    runTasks()
    assert.deepStrictEqual(ended, [1])
    assert.match(sent.find(([, frames]) => frames.startsWith("E"))?.[1] ?? "", /SFATALVFATALC25P03/)
    assert.deepStrictEqual(ran, ["QBEGIN", "QA1", "QROLLBACK", "QB1"])
  })

  for (const [how, answer] of [
    ["dies while it answers", [Frames.error("FATAL", "53100", "no space left"), Frames.ready(Frames.IDLE)]],
    ["answers without being ready", [Frames.error("ERROR", "XX000", "odd")]],
    ["does not answer", []]
  ] as const) {
    it(`stops for good when the session ${how}`, () => {
      const { ran, sent, answers, open, query, runTasks, deaths } = scene()
      open(1, 2)
      answers.set("QCOMMIT", answer)
      query(1, "BEGIN")
      query(2, "B1")
      query(1, "COMMIT")
      query(1, "A1")
      runTasks()
      assert.strictEqual(deaths(), 1)
      assert.deepStrictEqual(ran, ["QBEGIN", "QCOMMIT"])
      assert.deepStrictEqual(sent.length, 1 + Math.min(answer.length, 1))
    })
  }

  it("lives on after a common error", () => {
    const { ran, answers, open, query, deaths } = scene()
    open(1)
    answers.set("QA1", [Frames.error("ERROR", "22012", "division by zero"), Frames.ready(Frames.IDLE)])
    query(1, "A1")
    query(1, "A2")
    assert.deepStrictEqual([deaths(), ran], [0, ["QA1", "QA2"]])
  })
})
