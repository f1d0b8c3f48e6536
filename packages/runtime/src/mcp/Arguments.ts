/**
 * Whether the arguments of a call fit the JSON Schema of a server's tool, before the server is asked.
 *
 * The model is shown the schema as the server wrote it, and the server is sent the arguments as the model wrote them: the
 * check changes neither. What `effect/Schema` cannot express (a pattern, which a server could make arbitrarily slow, `if`,
 * `$dynamicRef`) makes a schema that only the server checks.
 */
import * as Effect from "effect/Effect"
import * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaRepresentation from "effect/SchemaRepresentation"

/** Says what does not fit, or nothing. */
export type Check = (params: unknown) => Effect.Effect<void, string>

/** The check of a schema; `undefined` for one that only the server can check. */
export const check = (schema: JsonSchema.JsonSchema): Check | undefined => {
  const translated = Result.try(() => {
    const document = isDraft07(schema)
      ? JsonSchema.fromSchemaDraft07(schema)
      : JsonSchema.fromSchemaDraft2020_12(schema)
    return Schema.decodeUnknownEffect(SchemaRepresentation.fromJsonSchemaDocument(document) as Schema.Codec<unknown>, {
      errors: "all"
    })
  })
  if (Result.isFailure(translated)) return undefined
  const decode = translated.success
  return (params) =>
    decode(params).pipe(
      Effect.asVoid,
      Effect.mapError(({ message }) => message)
    )
}

const isDraft07 = ({ $schema, definitions }: JsonSchema.JsonSchema): boolean =>
  typeof $schema === "string" ? $schema.includes("draft-07") : definitions !== undefined
