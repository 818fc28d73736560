package devcloud

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/tenon-cloud/tenon/internal/durable"
)

// Identity is what makes a folder's cloud its own; it is kept in its
// cloud.json and, for those who clean up after it, in each place it uses.
type Identity struct {
	ID          string    `json:"id"`    // 8 hexadecimal digits
	State       string    `json:"state"` // the folder that it is kept in
	ConsolePort int       `json:"console_port"`
	NodePort    int       `json:"node_port"`
	CreatedAt   time.Time `json:"created_at"`
	Elsewhere   []string  `json:"elsewhere,omitempty"` // parts that can't live in the state folder, and so are in /var/lib/tenon/<id>
}

const identityFile = "cloud.json"

var idForm = regexp.MustCompile(`^[0-9a-f]{8}$`)

// readIdentity reads a folder's identity; fs.ErrNotExist: it has none yet.
func readIdentity(folder string) (Identity, error) {
	var id Identity
	text, err := os.ReadFile(filepath.Join(folder, identityFile))
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(text, &id); err != nil || !idForm.MatchString(id.ID) {
		return id, fmt.Errorf("%s is damaged: remove the folder with `make clean`, or restore the file", filepath.Join(folder, identityFile))
	}
	return id, nil
}

func (id Identity) write(folder string) error {
	text, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("encode identity: %w", err)
	}
	return durable.WriteFile(filepath.Join(folder, identityFile), append(text, '\n'), 0o644)
}

// openIdentity reads the state folder's identity or makes a new one. A folder
// that was copied or moved keeps its id only if the old place is gone: two
// clouds must never share one.
func openIdentity(state string) (Identity, error) {
	id, err := readIdentity(state)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return newIdentity(state)
	case err != nil:
		return id, err
	case id.State == state:
		return id, nil
	}
	if other, err := readIdentity(id.State); err == nil && other.ID == id.ID {
		return id, fmt.Errorf("this state folder is a copy of %s, and two clouds can't be the same one: run `make clean` here first", id.State)
	}
	id.State = state // moved
	return id, id.write(state)
}

func newIdentity(state string) (Identity, error) {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return Identity{}, fmt.Errorf("make a cloud id: %w", err)
	}
	id := Identity{ID: hex.EncodeToString(b[:]), State: state, CreatedAt: time.Now().UTC().Truncate(time.Second)}
	return id, id.write(state)
}
