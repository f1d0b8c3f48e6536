import { assert, describe, it } from "@effect/vitest"
import type { ItemId, SessionId, TurnId } from "@turnstep/core/Ids"
import * as TurnError from "@turnstep/core/TurnError"
import { Api } from "@turnstep/server/api/Api"
import * as ApiError from "@turnstep/server/api/ApiError"
import * as OpenApi from "effect/http-api/OpenApi"
import * as fs from "node:fs"
import * as path from "node:path"

const api = path.resolve("packages/server/src/api")
const sessionId = "s" as SessionId
const itemId = "inb_1" as ItemId
const running = "trn_2" as TurnId

describe("the API as a definition", () => {
  it("can be imported by a client that is not a server, and not on Node", () => {
    for (const file of fs.readdirSync(api)) {
      const text = fs.readFileSync(path.join(api, file), "utf8")
      for (const [, from = ""] of text.matchAll(/from "([^"]+)"/g)) {
        assert.match(from, /^(effect\/|@turnstep\/core\/|\.\/[A-Z])/, `${file} imports ${from}`)
      }
    }
  })

  it("says of every operation what it can refuse, and which need the token", () => {
    const document = JSON.parse(JSON.stringify(OpenApi.fromApi(Api))) as {
      readonly security: unknown
      readonly paths: Record<string, Record<string, { readonly security?: unknown; readonly responses: object }>>
    }
    assert.deepStrictEqual(document.security, [{ bearer: [] }])
    for (const [route, operations] of Object.entries(document.paths)) {
      for (const [method, operation] of Object.entries(operations)) {
        const name = `${method} ${route}`
        const isOpen = !route.startsWith("/api/")
        assert.deepStrictEqual(operation.security, isOpen ? [] : undefined, name)
        if (isOpen) continue
        const statuses = Object.keys(operation.responses)
        assert.includeMembers(statuses, ["400", "401", "403", "421", "500", "503"], name)
        if (route.includes("{session}")) assert.include(statuses, "404", name)
        if (method === "post" || method === "patch") assert.includeMembers(statuses, ["413", "415"], name)
      }
    }
  })

  it("tells every refusal of the runtime by a code and a status of its own kind", () => {
    const told = (refusal: ApiError.Refusal) => {
      const { code, detail, hint, status } = ApiError.fromRefusal(refusal, "/x")
      assert.strictEqual(detail, refusal.message)
      assert.match(hint, /^[A-Z].+\.$/)
      return [status, code]
    }
    const table: ReadonlyArray<readonly [ApiError.Refusal, number, ApiError.Code]> = [
      [new TurnError.SessionNotFound({ sessionId: "s" }), 404, "session-not-found"],
      [new TurnError.SessionExists({ sessionId }), 409, "session-exists"],
      [new TurnError.SessionIdInvalid({ id: "a b" }), 400, "invalid-request"],
      [new TurnError.AgentNotFound({ agent: "a", known: [] }), 422, "agent-not-found"],
      [new TurnError.SessionBusy({ sessionId }), 409, "turn-active"],
      [new TurnError.TurnNotRunning({ sessionId }), 409, "no-active-turn"],
      [new TurnError.TurnNotRunning({ sessionId, expected: "trn_1", running }), 409, "turn-mismatch"],
      [new TurnError.TurnNotFound({ sessionId, turnId: "trn_9" }), 404, "turn-not-found"],
      [new TurnError.ItemNotFound({ sessionId, itemId: "inb_9" }), 404, "item-not-found"],
      [new TurnError.ItemSettled({ sessionId, itemId, state: "applied" }), 409, "inbox-already-applied"],
      [new TurnError.ItemSettled({ sessionId, itemId, state: "returned" }), 409, "inbox-already-returned"],
      [new TurnError.ClientKeyReused({ sessionId, clientKey: "k" }), 422, "idempotency-key-reused"]
    ]
    for (const [refusal, ...expected] of table) assert.deepStrictEqual(told(refusal), expected)
  })
})
