import * as Databases from "../sql/Databases.ts"
import * as Races from "./Races.ts"

for (const database of Databases.migrated) {
  Races.suite(database, Number(process.env["RACES"] ?? (database.name === "PostgreSQL" ? 10_000 : 2_000)))
}
