// Package migrations carries the schema, in goose's numbered SQL files, inside
// the binary. schema.sql is the golden dump that `make gen` writes.
package migrations

import "embed"

// Files are the migrations, oldest first by name.
//
//go:embed 0*.sql
var Files embed.FS
