package pgtest

import (
	"os"
	"path/filepath"
)

// Binary finds one of Postgres's programs beside the server, pg_dump for
// instance; empty when it is not there.
func Binary(name string) string {
	dir, err := binaries()
	if err != nil {
		return ""
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}
