import * as LostConnection from "./LostConnection.ts"

LostConnection.suite(8, 12)
